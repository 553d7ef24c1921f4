"""The processes that the benchmark starts: servers on one core, the load generator on another."""

import asyncio
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvloop
from aiohttp import web

_STOP_SECONDS = 60.0

_IDLE_SECONDS = 0.1
_IDLE_TICKS = 1
"""A server is idle if it uses at most so many clock ticks of CPU time in _IDLE_SECONDS."""

CORES = sorted(os.sched_getaffinity(0))
"""The cores that the benchmark may use. A server runs on the first, wrk on the last."""


class BenchmarkError(Exception):
    """The run cannot continue; the message says why in one line."""


@dataclass(frozen=True)
class Server:
    """A running server. authority: of its certificate, None for plain HTTP. token: for access."""

    url: str
    pid: int
    authority: Path | None = None
    token: str | None = None

    async def wait_until_idle(self) -> None:
        """Wait until the server has finished the requests of clients that have disconnected."""
        before = self._cpu_ticks
        while True:
            await asyncio.sleep(_IDLE_SECONDS)
            if (now := self._cpu_ticks) - before <= _IDLE_TICKS:
                return
            before = now

    @property
    def _cpu_ticks(self) -> int:
        # The name of the program, in parentheses, may contain spaces.
        statistics = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2]
        return sum(int(field) for field in statistics.split()[11:13])


@asynccontextmanager
async def run_server(
    *command: str, authority: Path | None = None, token: str | None = None
) -> AsyncIterator[Server]:
    """Run a Python module that prints its URL when it listens, until the context ends.

    Raises BenchmarkError if it exits without a URL; standard error then has its own message.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *command),
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        # Ctrl-C must reach only the benchmark, which then stops the servers one by one.
        start_new_session=True,
    )
    try:
        os.sched_setaffinity(process.pid, CORES[:1])
        line = (await process.stdout.readline()).decode() if process.stdout else ""
        if not (url := re.search(r"https?://[\w.:]+", line)):
            raise BenchmarkError(f"{command[0]} does not start")
        yield Server(url[0], process.pid, authority, token)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()


def serve(app: web.Application, certificate: str | None = None, key: str | None = None) -> None:
    """Listen on a free port, print the URL, and serve on uvloop until a signal.

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
