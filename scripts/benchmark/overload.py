"""More requests than the service can answer: what still succeeds, and how it recovers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientSession, ClientTimeout

from benchmark import load
from benchmark.client import open_client
from benchmark.data import fill
from benchmark.load import Load
from benchmark.processes import Server, all_cores
from benchmark.rounds import Plan
from benchmark.samples import Overload, Part, Results
from benchmark.testbed import Testbed
from benchmark.workloads import Workload, comparison_workloads

_WORKLOADS = ("read", "update")

_CAPACITY_CONNECTIONS, _CONNECTIONS = 256, 2_000

_PAUSE_SECONDS = 0.01
"""Between the reads that observe the latency."""

_RECOVERY_SECONDS = 5.0
"""How long the latency is observed after the load."""

_NORMAL = 2.0
"""A latency is normal up to this many times the 99th percentile without load."""


async def measure_overload(testbed: Testbed, persons: int, plan: Plan, results: Results) -> None:
    """Send the service, on one core, requests on eight times the connections that it needs."""
    database = "overload"
    await fill(testbed.database(database), persons)
    # The log has a line for each refusal.
    service = testbed.service(database, all_cores()[:1], errors=asyncio.subprocess.DEVNULL)
    async with service as server:
        async with open_client(server) as client:
            workloads = await comparison_workloads(client, persons, testbed.new_directory())
        for name in _WORKLOADS:
            results.overloads.append(await _measure(server, workloads[name], plan))


async def _measure(server: Server, workload: Workload, plan: Plan) -> Overload:
    seconds = 5 * plan.seconds
    capacity = Load(_CAPACITY_CONNECTIONS, seconds, 1, plan.cores)
    at_limit = await load.measure(server.url, workload, capacity)
    async with _observed_latencies(server.url) as latencies:
        await asyncio.sleep(plan.seconds)
        normal = sorted(latency for _, latency in latencies)[len(latencies) * 99 // 100]
        beyond = Load(_CONNECTIONS, seconds, 2, plan.cores)
        overloading = asyncio.create_task(load.run(server.url, workload, beyond))
        await asyncio.sleep(seconds / 2)  # connections, and what they buffer, take memory first
        before = server.memory
        report = await overloading
        growth, end = server.memory - before, time.perf_counter()
        await asyncio.sleep(_RECOVERY_SECONDS)
    slow = [sent for sent, latency in latencies if latency > _NORMAL * normal and sent > end]
    result = Overload(
        workload.name,
        at_limit.rate,
        1e6 * (report["requests"] - report["status"]) / report["microseconds"],
        report["status"],
        at_limit.failed + sum(report[name] for name in ("connect", "read", "write", "timeout")),
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
