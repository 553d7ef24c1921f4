"""How small requests fare next to large ones."""

from __future__ import annotations

import asyncio
import time

import orjson

from benchmark import load
from benchmark.client import Client, Request, open_client
from benchmark.data import fill, give_all_to
from benchmark.load import Load
from benchmark.processes import Server, all_cores
from benchmark.rounds import Plan
from benchmark.samples import LoopLag, Part, Percentiles, Results
from benchmark.testbed import Testbed
from benchmark.workloads import OWNER, Workload, large_workloads

_CONNECTIONS = 24

_PROBES = {
    # The service responds without its database, as soon as its event loop is free.
    "lag": Request("OPTIONS", "/persons"),
    "read": Request("GET", f"/persons/{OWNER + 1}"),
    "write": Request(
        "PATCH",
        f"/persons/{OWNER + 1}",
        orjson.dumps({"data": {"type": "person", "attributes": {"first_name": "Ada"}}}),
    ),
}
"""The small requests, by kind."""

_PAUSE_SECONDS = 0.005
"""The pause after each small request."""


async def measure_isolation(testbed: Testbed, persons: int, plan: Plan, results: Results) -> None:
    """Probe the service, on one core, under each large workload."""
    database = "isolation"
    await fill(testbed.database(database), persons)
    computers = await give_all_to(testbed.database(database), OWNER)
    # The log has lines for requests that are not valid.
    service = testbed.service(database, all_cores()[:1], errors=asyncio.subprocess.DEVNULL)
    async with service as server:
        await _probe(server, plan.seconds)  # the first requests take longer
        results.loop_lags.append(LoopLag("none", **await _probe(server, plan.seconds)))
        for workload in large_workloads(computers, testbed.new_directory()).values():
            results.loop_lags.append(await _next_to(workload, server, plan))
            print(f"{Part.ISOLATION}: {results.loop_lags[-1]}", flush=True)


async def _next_to(workload: Workload, server: Server, plan: Plan) -> LoopLag:
    """Send small requests while wrk sends large ones."""
    large = Load(_CONNECTIONS, plan.seconds, 1, plan.cores)
    running = asyncio.create_task(load.run(server.url, workload, large))
    try:
        latencies = await _probe(server, plan.seconds)
        await running
    finally:
        running.cancel()
    await server.wait_until_idle()
    return LoopLag(workload.name, **latencies)


async def _probe(server: Server, seconds: float) -> dict[str, Percentiles]:
    """Send requests of each kind one after another; return their latencies by kind."""
    end = time.perf_counter() + seconds
    async with open_client(server) as client:
        samples = await asyncio.gather(*(_sample(client, one, end) for one in _PROBES.values()))
    return dict(zip(_PROBES, samples, strict=True))


async def _sample(client: Client, request: Request, end: float) -> Percentiles:
    latencies: list[float] = []
    while not latencies or time.perf_counter() < end:
        started = time.perf_counter()
        await client.send(request)
        latencies.append(1e3 * (time.perf_counter() - started))
        await asyncio.sleep(_PAUSE_SECONDS)
    latencies.sort()
    p50, p99 = (latencies[len(latencies) * percent // 100] for percent in (50, 99))
    return Percentiles(p50, p99, latencies[-1])
