"""The rounds: every subject is measured in each of them, one right after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from benchmark import load
from benchmark.client import client_of
from benchmark.processes import Server
from benchmark.samples import Part, Results, Sample
from benchmark.works import Work

_BATCHES = 1.5
"""How many answers there is time for on each connection, at the pace of one request alone."""


async def _nothing(_: Work) -> None:
    pass


@dataclass(frozen=True)
class Subject:
    """A server under load. works: what it is asked; before, after: done around a measurement."""

    name: str
    server: Server
    works: Mapping[str, Work]
    before: Callable[[Work], Awaitable[None]] = _nothing
    after: Callable[[Work], Awaitable[None]] = _nothing


@dataclass(frozen=True)
class Plan:
    """How to measure. seconds: at least, for each measurement; cores: those of the load."""

    rounds: int
    seconds: float
    connections: Sequence[int]
    cores: Collection[int]


async def measure(part: Part, subjects: Sequence[Subject], plan: Plan, results: Results) -> None:
    """Measure all subjects in all their works and add the samples to the results."""
    for number in range(1, plan.rounds + 1):
        for work in subjects[0].works:
            for connections in plan.connections:
                title = subjects[0].works[work].title
                print(f"{part}, round {number}: {title}, {connections} connections", flush=True)
                for subject in subjects:
                    sample = await _sample(part, subject, work, connections, number, plan)
                    results.samples.append(sample)


async def _sample(
    part: Part, subject: Subject, name: str, connections: int, number: int, plan: Plan
) -> Sample:
    work, url = subject.works[name], subject.server.url
    await subject.before(work)
    batch = connections * await _seconds(url, work)
    seconds = max(plan.seconds, _BATCHES * batch)
    figures = await load.measure(url, work, load.Load(connections, seconds, number, plan.cores))
    await subject.server.settle()
    await subject.after(work)
    print(
        f"    {subject.name}: {figures.rate:,.0f}/s, "
        f"p50 {figures.p50:,.2f} ms, p99 {figures.p99:,.2f} ms"
        f"{f', FAILED: {figures.failed}' if figures.failed else ''}",
        flush=True,
    )
    return Sample(part, subject.name, name, connections, figures)


async def _seconds(url: str, work: Work) -> float:
    """Return how long one request takes alone."""
    async with client_of(url) as client:
        await client.send(work.sample)
        started = perf_counter()
        await client.send(work.sample)
        return perf_counter() - started
