"""The parts of the benchmark, each of which measures servers under workloads."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from time import perf_counter

import orjson

from benchmark import results as names
from benchmark.data import COMPUTERS_EACH, copy, fill
from benchmark.load import Request, measure, send
from benchmark.mongodb import MongoDB, secured
from benchmark.processes import BenchmarkError, Server
from benchmark.results import CONNECTIONS, CONSTANT, NAIVE, SERVICE, Results
from benchmark.workloads import READ, UPDATE, compared_workloads, growth_workloads, heavy_workloads

_MIN_RESPONSES = 1.5
"""Minimum responses per connection, estimated from the latency without other load."""

_HEAVY_CONNECTIONS = 24


@dataclass(frozen=True)
class Run:
    """How to measure, and where results go.

    mongodb: an embedded one. persons: the sizes of the database; all parts but that of growth use
    the first. seconds: the minimum for each measurement.
    """

    mongodb: MongoDB
    persons: Sequence[int]
    seconds: float
    results: Results

    async def measure(
        self,
        part: str,
        title: str,
        subjects: Mapping[str, tuple[Server, list[Request]]],
        connections: int,
    ) -> None:
        """Measure servers in turn. Raises BenchmarkError if no request succeeds."""
        print(f"{part}: {title}, connections: {connections:,}", flush=True)
        for name, (server, requests) in subjects.items():
            await send(server, requests[0])
            started = perf_counter()
            await send(server, requests[-1])
            least = _MIN_RESPONSES * connections * (perf_counter() - started)
            metrics = await measure(server, requests, connections, max(self.seconds, least))
            if not metrics.rate:
                raise BenchmarkError(f"{part}, {title}: {name} fails every request")
            await server.wait_until_idle()
            self.results.metrics[part, name, title, connections] = metrics
            print(f"    {name}: {metrics}", flush=True)


async def compare_servers(run: Run) -> None:
    """Measure the constant server, the naive one and the service, in turn, on the same core."""
    await _compare(run, run.mongodb, names.SERVERS, (1, CONNECTIONS))


async def compare_in_production(run: Run) -> None:
    """Measure the same with HTTPS, access tokens, and a secured replica set."""
    async with secured(run.mongodb) as replica_set:
        await _compare(run, replica_set, names.PRODUCTION, (CONNECTIONS,))


async def _compare(run: Run, mongodb: MongoDB, part: str, connections: Collection[int]) -> None:
    await fill(mongodb, SERVICE, run.persons[0])
    await copy(mongodb, SERVICE, NAIVE)
    async with (
        mongodb.reference("benchmark.constant") as constant,
        mongodb.reference("benchmark.naive", mongodb.uri, NAIVE) as naive,
        mongodb.service(SERVICE) as service,
    ):
        workloads = compared_workloads(run.persons[0])
        bodies = {
            title: await _common_body(naive, service, requests[0])
            for title, requests in workloads.items()
        }
        servers = {CONSTANT: constant, NAIVE: naive, SERVICE: service}
        for title, requests in workloads.items():
            await send(constant, Request("PUT", "/", bodies[title]))
            subjects = {name: (server, requests) for name, server in servers.items()}
            for count in connections:
                await run.measure(part, title, subjects, count)


async def _common_body(naive: Server, service: Server, request: Request) -> bytes:
    """Return the response of both servers. Raises BenchmarkError if they differ."""
    bodies = [await send(server, request) for server in (naive, service)]
    theirs, ours = (
        orjson.loads(body.replace(server.url.encode(), b""))
        for body, server in zip(bodies, (naive, service), strict=True)
    )
    if theirs != ours:
        raise BenchmarkError(
            f"{request.method} {request.path}: the naive server's response differs"
        )
    return bodies[1]


async def measure_growth(run: Run) -> None:
    """Measure the service on databases of different sizes, with one connection."""
    async with AsyncExitStack() as stack:
        services = {}
        for persons in run.persons:
            print(f"{names.GROWTH}: creating {persons:,} persons", flush=True)
            database = f"growth_{persons}"
            await fill(run.mongodb, database, persons)
            service = await stack.enter_async_context(run.mongodb.service(database))
            services[f"{persons:,} persons"] = service, growth_workloads(persons)
        for title in growth_workloads(run.persons[0]):
            subjects = {
                name: (service, workloads[title]) for name, (service, workloads) in services.items()
            }
            await run.measure(names.GROWTH, title, subjects, 1)


async def measure_neighbours(run: Run) -> None:
    """Send small requests to the service, alone and next to each heavy workload."""
    persons = run.persons[0]
    await fill(run.mongodb, names.NEIGHBOURS, persons, owners=1)
    small, seconds = compared_workloads(persons), 5 * run.seconds  # heavy requests take long
    async with run.mongodb.service(names.NEIGHBOURS) as service:
        heavy_requests = {"nothing": [], **heavy_workloads(COMPUTERS_EACH * persons)}
        for title, requests in heavy_requests.items():
            loads = [measure(service, small[name], 1, seconds) for name in (READ, UPDATE)]
            if requests:
                loads.append(measure(service, requests, _HEAVY_CONNECTIONS, seconds))
            reads, writes, *heavy = await asyncio.gather(*loads)
            await service.wait_until_idle()
            print(f"{names.NEIGHBOURS}: {title}: {reads}, {writes}, {heavy}", flush=True)
            for name, metrics in zip(names.SMALL_REQUESTS, (reads, writes), strict=True):
                run.results.metrics[names.NEIGHBOURS, title, name, 1] = metrics


async def measure_overload(run: Run) -> None:
    """Measure the service on so many connections that it is busy, and on more."""
    await fill(run.mongodb, names.OVERLOAD, run.persons[0])
    workloads = compared_workloads(run.persons[0])
    # It takes a part of a second until all connections are open.
    longer = replace(run, seconds=5 * run.seconds)
    async with run.mongodb.service(names.OVERLOAD) as service:
        for title in (READ, UPDATE):
            subjects = {SERVICE: (service, workloads[title])}
            for count in (names.BUSY, names.OVERLOADED):
                await longer.measure(names.OVERLOAD, title, subjects, count)


PARTS: Mapping[str, Callable[[Run], Awaitable[None]]] = {
    names.SERVERS: compare_servers,
    names.PRODUCTION: compare_in_production,
    names.GROWTH: measure_growth,
    names.NEIGHBOURS: measure_neighbours,
    names.OVERLOAD: measure_overload,
}
"""The parts by name, in the order in which they run."""
