"""How small requests fare next to heavy ones."""

import asyncio

import orjson

from benchmark import load
from benchmark.client import Client, Latencies, Request, open_client
from benchmark.data import fill, give_all_to, prepare
from benchmark.load import Load
from benchmark.processes import Server, all_cores
from benchmark.rounds import Plan
from benchmark.samples import Neighbour, Part, Results
from benchmark.testbed import Testbed
from benchmark.workloads import OWNER, Workload, heavy_workloads

_CONNECTIONS = 24

_PROBES = (
    # The service responds without its database, as soon as its event loop is free.
    Request("OPTIONS", "/persons"),
    Request("GET", f"/persons/{OWNER + 1}"),
    Request(
        "PATCH",
        f"/persons/{OWNER + 1}",
        orjson.dumps({"data": {"type": "person", "attributes": {"first_name": "Ada"}}}),
    ),
)
"""The small requests: for the lag of the event loop, a read and a write."""


async def measure_neighbours(testbed: Testbed, persons: int, plan: Plan, results: Results) -> None:
    """Send small requests to the service, on one core, alone and next to each heavy workload."""
    database = "neighbours"
    await fill(testbed.database(database), persons)
    computers = await give_all_to(testbed.database(database), OWNER)
    await prepare(testbed.database(database))
    # The log has a line for each heavy request that is refused.
    service = testbed.service(database, all_cores()[:1], errors=asyncio.subprocess.DEVNULL)
    async with service as server, open_client(server) as client:
        await _probe(client, plan.seconds)  # the first requests take longer
        results.neighbours.append(Neighbour("none", *await _probe(client, plan.seconds)))
        for workload in heavy_workloads(computers, testbed.new_directory()).values():
            results.neighbours.append(await _next_to(workload, server, client, plan))
            print(f"{Part.NEIGHBOURS}: {results.neighbours[-1]}", flush=True)


async def _next_to(workload: Workload, server: Server, client: Client, plan: Plan) -> Neighbour:
    """Send small requests while wrk sends heavy ones, which take longer than others."""
    seconds = 5 * plan.seconds
    heavy = Load(_CONNECTIONS, seconds, 1, plan.cores)
    running = asyncio.create_task(load.run(server.url, workload, heavy))
    try:
        lag, reads, writes = await _probe(client, seconds)
        report = await running
    finally:
        running.cancel()
    await server.wait_until_idle()
    refused = report["status"]
    return Neighbour(workload.name, lag, reads, writes, report["requests"] - refused, refused)


async def _probe(client: Client, seconds: float) -> tuple[Latencies, Latencies, Latencies]:
    """Send small requests of each kind one after another; return their latencies."""
    lag, reads, writes = await asyncio.gather(*(client.repeat([one], seconds) for one in _PROBES))
    return lag, reads, writes
