"""An open-loop load generator: requests are due at fixed times, whatever the responses do.

Its program, which `run` starts, reads an `OpenLoop` as JSON from standard input and writes an
`Outcome` to standard output. As a process of its own it is not delayed by the benchmark.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from array import array
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from time import perf_counter
from typing import cast

import orjson
import uvloop

from benchmark.processes import BenchmarkError
from registry.protocol import MEDIA_TYPE

_TICK_SECONDS = 0.001

_CONNECTING = 100
"""Connections that are opened at the same time."""

_MAX_WAIT_SECONDS = 30.0
"""How long the last responses may take."""


@dataclass(frozen=True)
class OpenLoop:
    """A load. rate: requests per second. file: the requests, in the format of requests.lua.

    A connection has at most one request in progress, as of clients that do not pipeline.
    """

    host: str
    port: int
    file: str
    connections: int
    rate: float
    seconds: float


@dataclass
class Outcome:
    """What became of the requests.

    succeeded: responses of status 2xx. refused: 503 with `Retry-After` and the error `overloaded`.
    failed: other responses and none. withheld: requests that were due while all connections waited
    for a response. p99: of the time from a request to its response of status 2xx, in milliseconds.
    seconds: from the first request to the last response. drain_seconds: the part of it after the
    last request.
    """

    succeeded: int = 0
    refused: int = 0
    failed: int = 0
    withheld: int = 0
    p99: float = 0.0
    seconds: float = 0.0
    drain_seconds: float = 0.0


async def run(load: OpenLoop, cores: Collection[int]) -> Outcome:
    """Put a server under load from a process on these cores. Raises BenchmarkError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmark.open_loop"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        os.sched_setaffinity(process.pid, cores)
        output, _ = await process.communicate(orjson.dumps(load))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BenchmarkError("the open-loop load generator failed")
    return Outcome(**orjson.loads(output))


class _Generator:
    def __init__(self, load: OpenLoop) -> None:
        self.outcome = Outcome()
        self.idle = deque[_Connection]()
        self.latencies = array("d")
        self.in_progress = 0
        self._load = load
        self._requests = cycle(_read_requests(Path(load.file)))

    async def run(self) -> Outcome:
        await self._connect()
        started, sent = perf_counter(), 0
        while (elapsed := perf_counter() - started) < self._load.seconds:
            due = int(elapsed * self._load.rate)
            self._send(due - sent)
            sent = due
            await asyncio.sleep(_TICK_SECONDS)
        ended = elapsed
        while self.in_progress and elapsed < ended + _MAX_WAIT_SECONDS:
            await asyncio.sleep(_TICK_SECONDS)
            elapsed = perf_counter() - started
        self.outcome.seconds, self.outcome.drain_seconds = elapsed, elapsed - ended
        self.outcome.failed += self.in_progress
        if ordered := sorted(self.latencies):
            self.outcome.p99 = 1e3 * ordered[len(ordered) * 99 // 100]
        return self.outcome

    async def _connect(self) -> None:
        loop, load = asyncio.get_running_loop(), self._load
        for first in range(0, load.connections, _CONNECTING):
            count = min(_CONNECTING, load.connections - first)
            await asyncio.gather(
                *(
                    loop.create_connection(lambda: _Connection(self), load.host, load.port)
                    for _ in range(count)
                )
            )

    def _send(self, count: int) -> None:
        sent = min(count, len(self.idle))
        for _ in range(sent):
            self.idle.popleft().send(next(self._requests))
        self.in_progress += sent
        self.outcome.withheld += count - sent


class _Connection(asyncio.Protocol):
    def __init__(self, generator: _Generator) -> None:
        self._generator = generator
        self._received = b""
        self._sent_at: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        self._transport = cast(asyncio.Transport, transport)
        self._generator.idle.append(self)

    def send(self, request: bytes) -> None:
        self._sent_at = perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(b"\r\n\r\n")
        if self._sent_at is None or end < 0:
            return
        if len(received) < end + len(b"\r\n\r\n") + _content_length(received, end):
            return
        self._count(received, perf_counter() - self._sent_at)
        self._received, self._sent_at = b"", None
        self._generator.in_progress -= 1
        self._generator.idle.append(self)

    def connection_lost(self, _: Exception | None) -> None:
        if self._sent_at is None:
            self._generator.idle.remove(self)
        else:
            self._generator.in_progress -= 1
        self._generator.outcome.failed += 1

    def _count(self, response: bytes, seconds: float) -> None:
        outcome, status = self._generator.outcome, response[9:12]
        if status.startswith(b"2"):
            outcome.succeeded += 1
            self._generator.latencies.append(seconds)
        elif status == b"503" and b"\r\nRetry-After: " in response and b'"overloaded"' in response:
            outcome.refused += 1
        else:
            outcome.failed += 1


def _content_length(response: bytes, end: int) -> int:
    name = b"\r\nContent-Length: "
    start = response.find(name, 0, end)
    return 0 if start < 0 else int(response[start + len(name) : response.find(b"\r", start + 2)])


def _read_requests(file: Path) -> Sequence[bytes]:
    requests = []
    for line in file.read_text().splitlines():
        method, path, body = line.split("\t")
        headers = f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body.encode())}\r\n"
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers if body else ''}\r\n"
        requests.append(f"{head}{body}".encode())
    return requests


def main() -> None:
    """Run the load that standard input describes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = OpenLoop(**orjson.loads(sys.stdin.buffer.read()))
    outcome = uvloop.run(_Generator(load).run())
    sys.stdout.buffer.write(orjson.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
