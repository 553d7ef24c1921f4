"""Processes that the benchmark starts: servers, each on the cores it is given."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_END_SECONDS = 60.0
_SETTLE_SECONDS = 0.1
_IDLE_TICKS = 1
"""Hundredths of a second of work in that time at which a server is taken to be idle."""


def all_cores() -> list[int]:
    """Return the cores of this machine that the benchmark may use."""
    return sorted(os.sched_getaffinity(0))


class BenchmarkError(Exception):
    """The run cannot go on; the text says why in one line."""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    url: str
    process: asyncio.subprocess.Process

    @property
    def peak(self) -> int:
        """The most memory that it has used since the start or `reset_peak`, in bytes."""
        return 1024 * sum(_number(process / "status", "VmHWM:") for process in self._processes())

    def reset_peak(self) -> None:
        """Forget what memory was used before."""
        for process in self._processes():
            (process / "clear_refs").write_text("5")

    async def settle(self) -> None:
        """Wait until it has done what was left over by clients that are gone."""
        before = self._ticks()
        while True:
            await asyncio.sleep(_SETTLE_SECONDS)
            if (now := self._ticks()) - before <= _IDLE_TICKS:
                return
            before = now

    def _ticks(self) -> int:
        """Return the time of processors that it has used, in hundredths of a second."""
        # The name of the program, in parentheses, may have spaces.
        lines = [(process / "stat").read_text().rpartition(")")[2] for process in self._processes()]
        return sum(int(field) for line in lines for field in line.split()[11:13])

    def _processes(self) -> Iterator[Path]:
        """Yield its directory below /proc, and those of its workers."""
        numbers = [str(self.process.pid)]
        for number in numbers:
            process = Path("/proc", number)
            yield process
            for task in (process / "task").iterdir():
                numbers += (task / "children").read_text().split()


def _number(path: Path, key: str) -> int:
    (found,) = [line.split()[1] for line in path.read_text().splitlines() if line.startswith(key)]
    return int(found)


@asynccontextmanager
async def running(cores: Collection[int], *command: str) -> AsyncIterator[Server]:
    """Run a Python module as a server and give it when it listens; it ends with the context.

    Raises BenchmarkError if it does not start; it says itself why.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *command,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C is for the benchmark, which then ends one after another.
        start_new_session=True,
    )
    try:
        os.sched_setaffinity(process.pid, cores)
        line = (await process.stdout.readline()).decode() if process.stdout else ""
        if not (found := re.search(r"http://[\d.:]+", line)):
            raise BenchmarkError(f"{command[0]} does not start")
        yield Server(found[0], process)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
