"""Followers of the change feed: how soon they get changes, and what they cost."""

import asyncio
import re
import resource
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import cast
from urllib.parse import urlsplit

import orjson
import uvloop

from benchmark.client import Client, Request, open_client
from benchmark.data import fill
from benchmark.processes import BenchmarkError, all_cores
from benchmark.rounds import Plan
from benchmark.samples import Followers, Part, Results
from benchmark.testbed import Testbed

_FOLLOWERS, _CHANGES_PER_SECOND = 1_000, 100

_SAMPLED = 20
"""Every so many followers, one takes the time of each change: that of all would occupy a core."""

_CONNECTING = 50
"""Connections that are opened at the same time."""

_LAST_SECONDS = 5.0
"""How long the last changes may take."""

_IDS = range(1, 201)
"""The persons that are read and changed: even the smallest database has them."""

_SENT_AT = re.compile(rb'"last_name":"([0-9.]+)"')


async def measure_followers(testbed: Testbed, persons: int, plan: Plan, results: Results) -> None:
    """Let clients follow the service, on one core, while others change and read resources."""
    database, seconds = "followers", 5 * plan.seconds
    reads = [Request("GET", f"/persons/{id_}") for id_ in _IDS]
    await fill(testbed.database(database), persons)
    async with testbed.service(database, all_cores()[:1]) as server, open_client(server) as client:
        alone = await client.repeat(reads, seconds)
        memory, before = server.memory, server.cpu_seconds
        sent = await _change(client, seconds)
        without = (server.cpu_seconds - before) / seconds
        async with _running(server.url) as process:
            before = server.cpu_seconds
            beside, sent = await asyncio.gather(
                client.repeat(reads, seconds), _change(client, seconds)
            )
            used = (server.cpu_seconds - before) / seconds
            memory = (server.memory - memory) // _FOLLOWERS
            output, _ = await process.communicate(f"{sent}\n".encode())
        missed, p50, p99 = orjson.loads(output)
        result = Followers(
            _FOLLOWERS, sent, missed, p50, p99, used - without, memory, alone, beside
        )
    results.followers.append(result)
    print(f"{Part.FOLLOWERS}: {result}", flush=True)


@asynccontextmanager
async def _running(url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the followers in a process of their own, which is ready.

    It takes the number of changes, waits for them, and returns how many are missed, and the median
    and the 99th percentile of the delays.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmark.followers", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        if not process.stdout or not await process.stdout.readline():
            raise BenchmarkError("the followers cannot connect")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _follow(url: str) -> None:
    """Follow, as `_running` says."""
    async with _followers(url) as connections:
        print("ready", flush=True)
        line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        sent = int(line)
        await _wait(lambda: all(one.count >= sent for one in connections))
        delays = sorted(1e3 * delay for one in connections for delay in one.delays)
        missed = sum(max(0, sent - one.count) for one in connections)
        figures = missed, delays[len(delays) // 2], delays[len(delays) * 99 // 100]
        print(orjson.dumps(figures).decode(), flush=True)


class _Connection(asyncio.Protocol):
    """A follower. count: changes that it has. delays: seconds from their requests, if sampled."""

    def __init__(self, *, is_sampled: bool) -> None:
        self.count = 0
        self.delays: list[float] = []
        self._is_sampled = is_sampled
        self.has_begun = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        request = "GET /changes HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        cast(asyncio.Transport, transport).write(request.encode())

    def data_received(self, data: bytes) -> None:
        self.has_begun = True
        self.count += data.count(b'{"op":')
        if self._is_sampled:
            now = monotonic()
            self.delays += [now - float(sent) for sent in _SENT_AT.findall(data)]


@asynccontextmanager
async def _followers(url: str) -> AsyncIterator[list[_Connection]]:
    """Yield followers whose responses have begun."""
    address, loop = urlsplit(url), asyncio.get_running_loop()
    host, port = address.hostname or "", address.port or 0
    found = []
    for first in range(0, _FOLLOWERS, _CONNECTING):
        opened = await asyncio.gather(
            *(
                loop.create_connection(
                    partial(_Connection, is_sampled=not number % _SAMPLED), host, port
                )
                for number in range(first, first + _CONNECTING)
            )
        )
        found += opened
    connections = [protocol for _, protocol in found]
    await _wait(lambda: all(one.has_begun for one in connections))
    try:
        yield connections
    finally:
        for transport, _ in found:
            transport.abort()


async def _change(client: Client, seconds: float) -> int:
    """Change persons at a fixed rate; return how many changes there were."""
    tasks, started = list[asyncio.Task[None]](), monotonic()
    for number in range(round(seconds * _CHANGES_PER_SECOND)):
        await asyncio.sleep(started + number / _CHANGES_PER_SECOND - monotonic())
        tasks.append(asyncio.create_task(_patch(client, _IDS[number % len(_IDS)])))
    await asyncio.gather(*tasks)
    return len(tasks)


async def _patch(client: Client, id_: int) -> None:
    attributes = {"last_name": f"{monotonic():.6f}"}
    document = {"data": {"type": "person", "id": str(id_), "attributes": attributes}}
    await client.send(Request("PATCH", f"/persons/{id_}", orjson.dumps(document)))


async def _wait(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, but not for long."""
    end = monotonic() + _LAST_SECONDS
    while not condition() and monotonic() < end:  # noqa: ASYNC110 - nothing signals it
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    uvloop.run(_follow(sys.argv[1]))
