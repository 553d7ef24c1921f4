"""More requests than the service can answer: what still succeeds, and how it recovers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import ClientSession, ClientTimeout

from benchmark import open_loop
from benchmark.client import Request, open_client
from benchmark.data import fill
from benchmark.open_loop import OpenLoop
from benchmark.processes import Server, all_cores
from benchmark.rounds import Plan
from benchmark.samples import CONSTANT, SERVICE, Overload, Part, Results
from benchmark.testbed import Testbed
from benchmark.workloads import Workload, comparison_workloads

_WORKLOADS = ("read", "update")

_CAPACITY_CONNECTIONS, _CAPACITY_RATE = 256, 1e6
"""With a rate that nothing can answer, each connection always has a request in progress."""

_CONNECTIONS, _FACTOR = 2_000, 3

_PAUSE_SECONDS = 0.01
"""Between the reads that observe the latency."""

_RECOVERY_SECONDS = 5.0
"""How long the latency is observed after the load."""

_NORMAL = 2.0
"""A latency is normal up to this many times the 99th percentile without load."""


async def measure_overload(testbed: Testbed, persons: int, plan: Plan, results: Results) -> None:
    """Put the service, on one core, under three times the load that it can answer.

    Then the constant server, which shows what so many connections cost without the service.
    """
    database = "overload"
    await fill(testbed.database(database), persons)
    # The log has a line for each refusal.
    service = testbed.service(database, all_cores()[:1], errors=asyncio.subprocess.DEVNULL)
    async with service as server:
        async with open_client(server) as client:
            workloads = await comparison_workloads(client, persons, testbed.new_directory())
            body = await client.send(Request("GET", "/persons/1"))
        for name in _WORKLOADS:
            results.overloads.append(await _measure(SERVICE, server, workloads[name], plan))
    async with testbed.reference(all_cores()[:1], "benchmark.constant") as server:
        async with open_client(server) as client:
            await client.send(Request("PUT", "/", body))
        results.overloads.append(await _measure(CONSTANT, server, workloads["read"], plan))


async def _measure(subject: str, server: Server, workload: Workload, plan: Plan) -> Overload:
    address, seconds = urlsplit(server.url), 5 * plan.seconds

    def load(connections: int, rate: float) -> OpenLoop:
        host, port = address.hostname or "", address.port or 0
        return OpenLoop(host, port, str(workload.file), connections, rate, seconds)

    limit = await open_loop.run(load(_CAPACITY_CONNECTIONS, _CAPACITY_RATE), plan.cores)
    capacity = limit.succeeded / limit.seconds
    async with _observed_latencies(server.url) as latencies:
        await asyncio.sleep(plan.seconds)
        normal = sorted(latency for _, latency in latencies)[len(latencies) * 99 // 100]
        overloading = asyncio.create_task(
            open_loop.run(load(_CONNECTIONS, _FACTOR * capacity), plan.cores)
        )
        await asyncio.sleep(seconds / 2)  # connections, and what they buffer, take memory first
        before = server.memory
        outcome = await overloading
        growth, end = server.memory - before, time.perf_counter() - outcome.drain_seconds
        await asyncio.sleep(_RECOVERY_SECONDS)
    slow = [sent for sent, latency in latencies if latency > _NORMAL * normal and sent > end]
    result = Overload(
        subject,
        workload.name,
        capacity,
        outcome.succeeded / outcome.seconds,
        outcome.refused,
        limit.failed + outcome.failed,
        outcome.withheld,
        outcome.p99,
        growth,
        max(slow, default=end) - end,
    )
    print(f"{Part.OVERLOAD}: {result}", flush=True)
    return result


@asynccontextmanager
async def _observed_latencies(url: str) -> AsyncIterator[list[tuple[float, float]]]:
    """Read one person again and again; yield when each request was sent, and its latency, in s."""
    latencies: list[tuple[float, float]] = []

    async def observe(session: ClientSession) -> None:
        while True:
            sent = time.perf_counter()
            async with session.get(f"{url}/persons/1") as response:
                await response.read()
            latencies.append((sent, time.perf_counter() - sent))
            await asyncio.sleep(_PAUSE_SECONDS)

    async with ClientSession(timeout=ClientTimeout(total=None)) as session:
        task = asyncio.create_task(observe(session))
        try:
            yield latencies
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
