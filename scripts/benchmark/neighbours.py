"""Cheap reads and writes next to heavy neighbours: filters that no index serves."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from urllib.parse import quote

import orjson
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector
from yarl import URL

from benchmark.data import COMPUTERS_EACH, fill, prepare
from benchmark.processes import all_cores
from benchmark.samples import Latencies, Neighbour, Results
from benchmark.testbed import Testbed
from registry.protocol import MEDIA_TYPE

_PERSONS = 66_667
"""With their computers, three each, 200,000 resources to filter."""

_CONDITIONS = 60

_STAYING, _LEAVING = 64, 200
"""Clients that wait for their responses, and clients that disconnect at once."""

_PERIOD_SECONDS = 5.0
"""How often each of those sends a request: to parse 40 filters takes 0.1 s of the event loop."""

_LEAVE_SECONDS = 0.2
"""How long they stay."""

_PROBES = 4
"""Connections with reads, and as many with writes."""

_PAUSE_SECONDS = 0.01
"""Between the requests of a probe, so that it measures the latency and not the throughput."""

_Behaviour = Callable[["_Flood"], Coroutine[None, None, None]]


@dataclass
class _Flood:
    """Heavy requests: how many were answered, refused, or failed, and the slowest response."""

    url: str
    session: ClientSession
    answered: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    numbers: Iterator[int] = field(default_factory=count)

    def target(self) -> URL:
        """Return a filter of its own, so that no requests share a query."""
        number = next(self.numbers)
        conditions = [
            {"name": "serial", "op": "contains", "val": f"{number}-{each}"}
            for each in range(_CONDITIONS)
        ]
        text = quote(orjson.dumps([{"or": conditions}]))
        return URL(f"{self.url}/computers?filter={text}&page%5Bsize%5D=1", encoded=True)

    async def stay(self) -> None:
        """Send requests one after another, and read the responses."""
        while True:
            begun = time.perf_counter()
            async with self.session.get(self.target()) as response:
                await response.read()
            self.answered += response.ok
            self.refused += response.status == HTTPStatus.SERVICE_UNAVAILABLE
            self.failed += response.status not in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}
            self.seconds = max(self.seconds, time.perf_counter() - begun)

    async def leave(self) -> None:
        """Send requests one after another, and disconnect before the responses."""
        await asyncio.sleep(random.uniform(0, _PERIOD_SECONDS))  # noqa: S311 - not all at once
        while True:
            _, writer = await asyncio.open_connection(*_address(self.url))
            path = self.target().raw_path_qs
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await asyncio.sleep(_LEAVE_SECONDS)
            writer.close()
            await asyncio.sleep(_PERIOD_SECONDS - _LEAVE_SECONDS)


async def measure_neighbours(testbed: Testbed, seconds: float, results: Results) -> None:
    """Measure reads by id and writes alone, and next to each kind of neighbours."""
    database = "neighbours"
    print(f"neighbours: creating {COMPUTERS_EACH * _PERSONS:,} computers", flush=True)
    await fill(testbed.database(database), _PERSONS)
    await prepare(testbed.database(database))
    kinds: dict[str, tuple[int, _Behaviour]] = {
        "none": (0, _Flood.stay),
        f"{_STAYING} clients": (_STAYING, _Flood.stay),
        f"{_LEAVING} clients that disconnect": (_LEAVING, _Flood.leave),
    }
    # The log has a line for each refusal.
    service = testbed.service(database, all_cores(), errors=asyncio.subprocess.DEVNULL)
    async with service as server, _session() as session:
        await _probe(server.url, session, seconds / 4)  # opens the connections
        for name, (clients, behave) in kinds.items():
            async with _flooding(_Flood(server.url, session), clients, behave) as flood:
                reads, writes = await _probe(server.url, session, seconds)
            counts = flood.answered, flood.refused, flood.failed
            result = Neighbour(name, reads, writes, *counts, flood.seconds)
            print(f"    neighbours: {result}", flush=True)
            results.neighbours.append(result)


@asynccontextmanager
async def _session() -> AsyncIterator[ClientSession]:
    timeout = ClientTimeout(total=None)
    async with ClientSession(connector=TCPConnector(limit=0), timeout=timeout) as session:
        yield session


@asynccontextmanager
async def _flooding(flood: _Flood, clients: int, behave: _Behaviour) -> AsyncIterator[_Flood]:
    tasks = [asyncio.create_task(behave(flood)) for _ in range(clients)]
    try:
        yield flood
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _probe(url: str, session: ClientSession, seconds: float) -> tuple[Latencies, Latencies]:
    """Return the latencies of reads by id and of updates, all of which should succeed."""
    end = time.perf_counter() + seconds
    choose = random.Random(1)  # noqa: S311 - the same requests in every run

    async def request(method: str) -> tuple[float, bool]:
        id_ = choose.randint(1, _PERSONS)
        attributes = {"last_name": f"Hopper-{choose.random()}"}
        document = {"data": {"type": "person", "id": str(id_), "attributes": attributes}}
        body = orjson.dumps(document) if method == "PATCH" else None
        begun = time.perf_counter()
        try:
            async with session.request(
                method, f"{url}/persons/{id_}", data=body, headers={"Content-Type": MEDIA_TYPE}
            ) as response:
                await response.read()
                succeeded = response.ok
        except ClientError:
            succeeded = False
        return time.perf_counter() - begun, succeeded

    async def repeat(method: str) -> list[tuple[float, bool]]:
        outcomes = []
        while time.perf_counter() < end:
            outcomes.append(await request(method))
            await asyncio.sleep(_PAUSE_SECONDS)
        return outcomes

    methods = ["GET"] * _PROBES + ["PATCH"] * _PROBES
    outcomes = await asyncio.gather(*map(repeat, methods))
    reads, writes = (
        Latencies.of([one for each in half for one in each])
        for half in (outcomes[:_PROBES], outcomes[_PROBES:])
    )
    return reads, writes


def _address(url: str) -> tuple[str, int]:
    parts = URL(url)
    assert parts.host  # noqa: S101 - for mypy
    assert parts.port  # noqa: S101 - for mypy
    return parts.host, parts.port
