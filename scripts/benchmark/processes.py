"""The server processes that the benchmark starts, each pinned to given cores, on uvloop."""

import asyncio
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from aiohttp import web

_STOP_SECONDS = 60.0

_IDLE_SECONDS = 0.1
_IDLE_CPU_SECONDS = 0.01
"""A server is idle if it uses at most so much CPU time in _IDLE_SECONDS: one clock tick."""


def all_cores() -> list[int]:
    """Return the cores of this machine that the benchmark may use."""
    return sorted(os.sched_getaffinity(0))


class BenchmarkError(Exception):
    """The run cannot continue; the message says why in one line."""


@dataclass(frozen=True)
class Access:
    """What the clients of a server with TLS need.

    authority: the file with the certificate of its certificate authority. token: an access token.
    """

    authority: Path
    token: str


@dataclass(frozen=True)
class Server:
    """A running server, with its worker processes. access: None for plain HTTP."""

    url: str
    process: asyncio.subprocess.Process
    access: Access | None = None

    @property
    def memory(self) -> int:
        """The resident memory, in bytes."""
        return 1024 * sum(_status(process, "VmRSS:") for process in self._processes())

    @property
    def peak_memory(self) -> int:
        """The peak resident memory since the start or `reset_peak_memory`, in bytes."""
        return 1024 * sum(_status(process, "VmHWM:") for process in self._processes())

    def reset_peak_memory(self) -> None:
        """Reset the peak to the current resident memory; see proc(5), clear_refs."""
        for process in self._processes():
            (process / "clear_refs").write_text("5")

    async def wait_until_idle(self) -> None:
        """Wait until the server has finished the requests of clients that have disconnected."""
        before = self.cpu_seconds
        while True:
            await asyncio.sleep(_IDLE_SECONDS)
            if (now := self.cpu_seconds) - before <= _IDLE_CPU_SECONDS:
                return
            before = now

    @property
    def cpu_seconds(self) -> float:
        """The CPU time used so far, user and system."""
        # The name of the program, in parentheses, may contain spaces.
        lines = [(process / "stat").read_text().rpartition(")")[2] for process in self._processes()]
        ticks = sum(int(field) for line in lines for field in line.split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _processes(self) -> Iterator[Path]:
        """Yield the directories in /proc of the server and its descendants."""
        numbers = [str(self.process.pid)]
        for number in numbers:
            process = Path("/proc", number)
            yield process
            for task in (process / "task").iterdir():
                numbers += (task / "children").read_text().split()


def _status(process: Path, key: str) -> int:
    lines = (process / "status").read_text().splitlines()
    (number,) = [line.split()[1] for line in lines if line.startswith(key)]
    return int(number)


@asynccontextmanager
async def run_server(
    cores: Collection[int],
    *command: str,
    errors: int | None = None,
    access: Access | None = None,
) -> AsyncIterator[Server]:
    """Run a Python module that prints its URL when it listens, until the context ends.

    errors: where its log goes, as in `subprocess`; by default, where that of the benchmark goes.
    access: what its clients need.
    Raises BenchmarkError if it exits without a URL; standard error then has its own message.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        *command,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        # Ctrl-C must reach only the benchmark, which then stops the servers one by one.
        start_new_session=True,
    )
    try:
        os.sched_setaffinity(process.pid, cores)
        line = (await process.stdout.readline()).decode() if process.stdout else ""
        if not (url := re.search(r"https?://[\w.:]+", line)):
            raise BenchmarkError(f"{command[0]} does not start")
        yield Server(url[0], process, access)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()


def serve(app: web.Application, certificate: str | None = None, key: str | None = None) -> None:
    """Listen on a free port, print the URL, and serve until a signal.

    certificate, key: the files for TLS; None for plain HTTP.
    """
    tls = None
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = "https" if tls else "http"
        print(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        web.run_app(
            app,
            sock=listener,
            ssl_context=tls,
            access_log=None,
            print=None,
            shutdown_timeout=1,
            loop=uvloop.new_event_loop(),
        )
