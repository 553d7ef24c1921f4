"""The performance goals of the service, and the results that are compared with them."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmark.samples import (
    CONSTANT,
    NAIVE,
    ONE_WORKER,
    SERVICE,
    TWO_WORKERS,
    Part,
    Results,
)
from benchmark.workloads import GROWTH_TITLES, TITLES

CONNECTIONS = 64
"""The number of connections to which the goals for rates apply."""

BUSY, OVERLOAD = 256, 2_000
"""Numbers of connections that keep the service busy, and eight times as many."""

_MIN_RATES = (
    ("read", CONSTANT, 0.50),
    ("read", NAIVE, 3.5),
    ("page", NAIVE, 1.6),
    ("number", NAIVE, 1.6),
    ("list", NAIVE, 1.0),
)
"""For each workload of reads, the service's rate as a minimum multiple of another server's rate."""

_MIN_WRITE_RATES = {
    "create": 5.5,
    "create-owned": 5.0,
    "create-include": 2.5,
    "update": 2.6,
    "replace": 2.4,
    "replace-include": 2.2,
    "operations": 2.5,
    "delete": 2.0,
}
"""The service's rate as a minimum multiple of the naive server's, in production too."""

_MAX_LATENCIES = {"read": 1.1, "create": 0.8, "update": 1.5, "replace-include": 1.3}
"""The service's median latency on one connection, as a maximum multiple of the naive server's."""

_MIN_RATES_AT_SCALE = {"read": 0.9, "number": 0.7}
"""The rate of a workload in each larger database, as a share of that in the smallest."""

_MAX_LATENCIES_AT_SCALE = (
    ("owner", "serial", 3.0),
    ("related", "value", 5.0),
    ("many", "value", 5.0),
)
"""For each workload, its median latency on one connection as a maximum multiple of another's."""

_MIN_RATE_UNDER_OVERLOAD = 0.9
"""The rate on OVERLOAD connections, as a share of that on BUSY ones."""

_MAX_MEMORY = 64e6
"""The bytes by which downloading a whole collection may grow the memory of the service."""


@dataclass(frozen=True)
class Goal:
    """A goal, and the result of this run."""

    text: str
    target: str
    result: str
    reached: bool


def goals(results: Results) -> Iterator[Goal]:
    """Yield the goals for which there are results."""
    yield from _rates(results)
    yield from _latencies(results)
    yield from _workers(results)
    yield from _growth(results)
    yield from _overloads(results)


def _rates(results: Results) -> Iterator[Goal]:
    writes = [(workload, NAIVE, minimum) for workload, minimum in _MIN_WRITE_RATES.items()]
    parts = (Part.SERVERS, "", (*_MIN_RATES, *writes)), (Part.PRODUCTION, "production: ", writes)
    for part, prefix, minima in parts:
        for workload, other, minimum in minima:
            if results.has(part, workload, CONNECTIONS):
                service, reference = (
                    results.median(part, name, workload, CONNECTIONS).rate
                    for name in (SERVICE, other)
                )
                text = f"{TITLES[workload]}, {CONNECTIONS} connections: rate / {other}"
                yield _at_least(f"{prefix}{text}", minimum, service / reference)


def _latencies(results: Results) -> Iterator[Goal]:
    for workload, maximum in _MAX_LATENCIES.items():
        if results.has(Part.SERVERS, workload, 1):
            service, naive = (
                results.median(Part.SERVERS, name, workload, 1).p50 for name in (SERVICE, NAIVE)
            )
            ratio, text = service / naive, f"{TITLES[workload]}, 1 connection: p50 / {NAIVE}"
            yield Goal(text, f"≤ {maximum}", f"{ratio:.2f}", ratio <= maximum)


def _workers(results: Results) -> Iterator[Goal]:
    for workload in results.workloads(Part.WORKERS):
        one, two = (
            results.median(Part.WORKERS, name, workload, CONNECTIONS).rate
            for name in (ONE_WORKER, TWO_WORKERS)
        )
        ratio = two / one
        yield Goal(f"{TITLES[workload]}: {TWO_WORKERS} / one", "> 1", f"{ratio:.2f}", ratio > 1)


def _growth(results: Results) -> Iterator[Goal]:
    sizes = results.subjects(Part.GROWTH)
    for workload, minimum in _MIN_RATES_AT_SCALE.items():
        for size in sizes[1:]:
            small, large = (
                results.median(Part.GROWTH, name, workload, CONNECTIONS).rate
                for name in (sizes[0], size)
            )
            text = f"{GROWTH_TITLES[workload]}: {size} / {sizes[0]}"
            yield _at_least(text, minimum, large / small)
    if results.has(Part.GROWTH, "read", 1):
        for size in sizes:
            yield from _latencies_at_scale(results, size)
    for one in results.full_lists:
        text = f"`{one.path}` of {one.persons:,} persons: memory growth"
        maximum, growth = (f"{size / 1e6:,.0f} MB" for size in (_MAX_MEMORY, one.memory))
        yield Goal(text, f"< {maximum}", growth, one.memory < _MAX_MEMORY)


def _latencies_at_scale(results: Results, size: str) -> Iterator[Goal]:
    p50 = {name: results.median(Part.GROWTH, size, name, 1).p50 for name in GROWTH_TITLES}
    for name, other, maximum in _MAX_LATENCIES_AT_SCALE:
        ratio = p50[name] / p50[other]
        text = f"{size}: {GROWTH_TITLES[name]}: p50 / {GROWTH_TITLES[other]}"
        yield Goal(text, f"≤ {maximum:g}", f"{ratio:.2f}", ratio <= maximum)


def _overloads(results: Results) -> Iterator[Goal]:
    for workload in results.workloads(Part.OVERLOAD):
        busy, overload = (
            results.median(Part.OVERLOAD, SERVICE, workload, connections).rate
            for connections in (BUSY, OVERLOAD)
        )
        text = f"{TITLES[workload]}: {OVERLOAD:,} connections / {BUSY}"
        yield _at_least(text, _MIN_RATE_UNDER_OVERLOAD, overload / busy)


def _at_least(text: str, minimum: float, ratio: float) -> Goal:
    return Goal(text, f"≥ {minimum}", f"{ratio:.2f}", ratio >= minimum)
