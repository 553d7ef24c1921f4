"""Measurement rounds: in each round, every workload is measured on all subjects in turn."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from benchmark import load
from benchmark.client import open_client
from benchmark.processes import Server
from benchmark.samples import Part, Results, Sample
from benchmark.workloads import Workload

_MIN_RESPONSES = 1.5
"""Minimum responses per connection, estimated from the latency without other load."""


async def _do_nothing(_: Workload) -> None:
    pass


@dataclass(frozen=True)
class Subject:
    """A server under test. before, after: called before and after each measurement."""

    name: str
    server: Server
    workloads: Mapping[str, Workload]
    before: Callable[[Workload], Awaitable[None]] = _do_nothing
    after: Callable[[Workload], Awaitable[None]] = _do_nothing


@dataclass(frozen=True)
class Plan:
    """How to measure. seconds: the minimum for each sample; cores: where wrk runs."""

    rounds: int
    seconds: float
    connections: Sequence[int]
    cores: Collection[int]


async def measure(part: Part, subjects: Sequence[Subject], plan: Plan, results: Results) -> None:
    """Measure all subjects under all their workloads and add the samples to the results."""
    for number in range(1, plan.rounds + 1):
        for name, workload in subjects[0].workloads.items():
            for connections in plan.connections:
                print(
                    f"{part}, round {number}: {workload.title}, {connections} connections",
                    flush=True,
                )
                for subject in subjects:
                    seed = len(results.samples)  # other requests than in earlier measurements
                    sample = await _sample(part, subject, name, connections, seed, plan)
                    results.samples.append(sample)


async def _sample(
    part: Part, subject: Subject, name: str, connections: int, seed: int, plan: Plan
) -> Sample:
    workload, server = subject.workloads[name], subject.server
    await subject.before(workload)
    seconds = max(plan.seconds, _MIN_RESPONSES * connections * await _latency(server, workload))
    token = None if server.access is None else server.access.token
    clients = load.Load(connections, seconds, seed, plan.cores, token)
    metrics = await load.measure(server.url, workload, clients)
    await server.wait_until_idle()
    await subject.after(workload)
    print(
        f"    {subject.name}: {metrics.rate:,.0f}/s, "
        f"p50 {metrics.p50:,.2f} ms, p99 {metrics.p99:,.2f} ms"
        f"{f', FAILED: {metrics.failed}' if metrics.failed else ''}",
        flush=True,
    )
    return Sample(part, subject.name, name, connections, metrics)


async def _latency(server: Server, workload: Workload) -> float:
    """Return the seconds that a request takes on a server without other load."""
    first, second = workload.samples
    async with open_client(server) as client:
        await client.send(first)
        started = perf_counter()
        await client.send(second)
        return perf_counter() - started
