"""The tables, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from benchmark.goals import goals
from benchmark.load import Figures
from benchmark.samples import (
    CONSTANT,
    NAIVE,
    ONE_WORKER,
    SERVICE,
    TWO_WORKERS,
    Part,
    Results,
)
from benchmark.works import GROWING_TITLES, TITLES

_BEGIN, _END = "<!-- benchmark -->", "<!-- end of benchmark -->"


def tables(results: Results) -> str:
    """Return all tables that there are figures for."""
    parts = [f"{results.machine}."]
    if results.failed:
        parts.append(f"**{results.failed:,} requests failed**: the tables say where.")
    sections = {
        "": _goals(results),
        "**Requests a second**, and the times of half and of 99 % of them in ms": _servers(results),
        "**Workers**, on all cores, requests a second": _workers(results),
        "**Growth**, requests a second": _growth(results),
        "**Whole collections**": _lists(results),
    }
    for title, rows in sections.items():
        head, *body = rows
        if body:
            parts += [f"{title}:", _table(head, body)] if title else [_table(head, body)]
    return "\n\n".join(parts) + "\n"


def inserted(text: str, tables: str) -> str:
    """Return the text with these tables between its marks."""
    between = re.compile(f"(?<={_BEGIN}\n).*(?={_END})", re.DOTALL)
    return between.sub(lambda _: f"\n{tables}\n", text)


def _goals(results: Results) -> Iterator[Sequence[str]]:
    yield "goal", "wanted", "found", "reached"
    for goal in goals(results):
        yield goal.text, goal.wanted, goal.found, "yes" if goal.reached else "**no**"


def _servers(results: Results) -> Iterator[Sequence[str]]:
    yield (
        *("work", "connections", CONSTANT, NAIVE, SERVICE),
        *(f"{SERVICE} / {CONSTANT}", f"{SERVICE} / {NAIVE}"),
        *("p50 naive", "p50 service", "p99 naive", "p99 service"),
    )
    for work in results.works(Part.SERVERS):
        for connections in results.connections(Part.SERVERS):
            constant, naive, service = (
                results.median(Part.SERVERS, name, work, connections)
                for name in (CONSTANT, NAIVE, SERVICE)
            )
            yield (
                *(TITLES[work], str(connections)),
                *map(_rate, (constant, naive, service)),
                *(_ratio(service.rate, one.rate) for one in (constant, naive)),
                *(_number(one.p50) for one in (naive, service)),
                *(_number(one.p99) for one in (naive, service)),
            )


def _workers(results: Results) -> Iterator[Sequence[str]]:
    yield "work", "connections", ONE_WORKER, TWO_WORKERS, "ratio"
    for work in results.works(Part.WORKERS):
        for connections in results.connections(Part.WORKERS):
            one, two = (
                results.median(Part.WORKERS, name, work, connections)
                for name in (ONE_WORKER, TWO_WORKERS)
            )
            ratio = _ratio(two.rate, one.rate)
            yield TITLES[work], str(connections), _rate(one), _rate(two), ratio


def _growth(results: Results) -> Iterator[Sequence[str]]:
    subjects = results.subjects(Part.GROWTH)
    yield "work", "connections", *subjects, "last / first"
    for work in results.works(Part.GROWTH):
        for connections in results.connections(Part.GROWTH):
            found = [results.median(Part.GROWTH, name, work, connections) for name in subjects]
            ratio = _ratio(found[-1].rate, found[0].rate)
            yield GROWING_TITLES[work], str(connections), *map(_rate, found), ratio


def _lists(results: Results) -> Iterator[Sequence[str]]:
    yield "GET", "persons", "seconds", "MB sent", "memory of the service grows by, MB"
    for one in results.lists:
        sent, memory = _number(one.bytes / 1e6), _number(one.memory / 1e6)
        yield f"`{one.path}`", f"{one.persons:,}", _number(one.seconds), sent, memory


def _rate(figures: Figures) -> str:
    failed = f" ({figures.failed:,} failed)" if figures.failed else ""
    return _number(figures.rate) + failed


def _number(value: float) -> str:
    """Return a number with three digits, or with all of those before the point."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.3g}"


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
