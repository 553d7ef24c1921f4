"""What the service is meant to reach, beside what it has reached."""

from __future__ import annotations

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
from benchmark.works import TITLES

CONNECTIONS = 64
"""The number of connections that the goals are about."""

_RATES = (
    ("read", CONSTANT, 0.60),
    ("read", NAIVE, 3.5),
    ("page", NAIVE, 1.6),
    ("list", NAIVE, 1.0),
    ("create", NAIVE, 6.0),
    ("update", NAIVE, 3.5),
    ("replace", NAIVE, 1.0),
)
"""The least rates of the service at so many connections, as shares of those of another server."""

_MOST_LATENCY = 1.1
_LONE_WORKS = ("read", "create")
"""The works in which one connection alone may wait no longer than so many times the naive one."""

_LEAST_AT_LARGEST = 0.9
"""The least rate of reading one person in the largest database, as a share of the smallest's."""

_MOST_MEMORY = 64e6
"""The most bytes by which a whole collection may let the memory of the service grow."""


@dataclass(frozen=True)
class Goal:
    """What is wanted, and what was found."""

    text: str
    wanted: str
    found: str
    reached: bool


def goals(results: Results) -> Iterator[Goal]:
    """Yield the goals that there are figures for."""
    yield from _rates(results)
    yield from _latencies(results)
    yield from _workers(results)
    yield from _growth(results)


def _rates(results: Results) -> Iterator[Goal]:
    for work, other, least in _RATES:
        if results.has(Part.SERVERS, work, CONNECTIONS):
            service, beside = (
                results.median(Part.SERVERS, name, work, CONNECTIONS).rate
                for name in (SERVICE, other)
            )
            text = f"{TITLES[work]}, {CONNECTIONS} connections: rate / {other}"
            yield _at_least(text, least, service / beside)


def _latencies(results: Results) -> Iterator[Goal]:
    for work in _LONE_WORKS:
        if results.has(Part.SERVERS, work, 1):
            service, naive = (
                results.median(Part.SERVERS, name, work, 1).p50 for name in (SERVICE, NAIVE)
            )
            ratio, text = service / naive, f"{TITLES[work]}, 1 connection: p50 / {NAIVE}"
            yield Goal(text, f"≤ {_MOST_LATENCY}", f"{ratio:.2f}", ratio <= _MOST_LATENCY)


def _workers(results: Results) -> Iterator[Goal]:
    for work in results.works(Part.WORKERS):
        one, two = (
            results.median(Part.WORKERS, name, work, CONNECTIONS).rate
            for name in (ONE_WORKER, TWO_WORKERS)
        )
        ratio = two / one
        yield Goal(f"{TITLES[work]}: {TWO_WORKERS} / one", "> 1", f"{ratio:.2f}", ratio > 1)


def _growth(results: Results) -> Iterator[Goal]:
    sizes = results.subjects(Part.GROWTH)
    for size in sizes[1:]:
        small, large = (
            results.median(Part.GROWTH, name, "read", CONNECTIONS).rate for name in (sizes[0], size)
        )
        text = f"{TITLES['read']} of {size} / of {sizes[0]}"
        yield _at_least(text, _LEAST_AT_LARGEST, large / small)
    for one in results.lists:
        text = f"`{one.path}` of {one.persons:,} persons: memory grows by"
        most, found = (f"{size / 1e6:,.0f} MB" for size in (_MOST_MEMORY, one.memory))
        yield Goal(text, f"< {most}", found, one.memory < _MOST_MEMORY)


def _at_least(text: str, least: float, ratio: float) -> Goal:
    return Goal(text, f"≥ {least}", f"{ratio:.2f}", ratio >= least)
