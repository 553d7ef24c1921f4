"""The result tables, in Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence

from benchmark.goals import BUSY, CONNECTIONS, OVERLOAD, goals
from benchmark.load import Metrics
from benchmark.samples import (
    CONSTANT,
    NAIVE,
    ONE_WORKER,
    SERVICE,
    TWO_WORKERS,
    Part,
    Results,
)
from benchmark.workloads import GROWTH_TITLES, HEAVY_TITLES, TITLES

_BEGIN, _END = "<!-- benchmark -->", "<!-- end of benchmark -->"


def tables(results: Results) -> str:
    """Return all tables for which there are results."""
    parts = [f"{results.environment}."]
    if results.failed:
        parts.append(f"**{results.failed:,} requests failed**; the tables show where.")
    sections = {
        "": _goals(results),
        "**Requests per second**, and median and 99th percentile of latency in ms": (
            _servers(results, Part.SERVERS)
        ),
        "**Production**: the same with a replica set of three members, TLS, passwords and tokens": (
            _servers(results, Part.PRODUCTION)
        ),
        "**Workers**, on all cores, requests per second": _workers(results),
        "**Growth**, requests per second, and median latency in ms": _growth(results),
        "**Whole collections**": _full_lists(results),
        "**Small requests** next to heavy ones on 24 connections; latency in ms": (
            _neighbours(results)
        ),
        "**Overload**, on one core, requests per second": _overloads(results),
        "**Followers** of the change feed beside 100 changes per second; latencies in ms": (
            _followers(results)
        ),
    }
    for title, rows in sections.items():
        head, *body = rows
        if body:
            parts += [f"{title}:", _table(head, body)] if title else [_table(head, body)]
    return "\n\n".join(parts) + "\n"


def summary(results: Results) -> str:
    """Return the table of docs/performance.md: one row for each workload on 64 connections."""
    head = (
        "requests per second",
        CONSTANT,
        NAIVE,
        SERVICE,
        f"{SERVICE} / {NAIVE}",
        "in production",
    )
    body = []
    for workload in results.workloads(Part.SERVERS):
        constant, naive, service = (
            results.median(Part.SERVERS, name, workload, CONNECTIONS)
            for name in (CONSTANT, NAIVE, SERVICE)
        )
        production = [
            results.median(Part.PRODUCTION, name, workload, CONNECTIONS)
            for name in (SERVICE, NAIVE)
            if workload in results.workloads(Part.PRODUCTION)
        ]
        body.append(
            (
                TITLES[workload],
                *map(_rate, (constant, naive, service)),
                _times(service.rate, naive.rate),
                _times(*(one.rate for one in production)) if production else "",
            )
        )
    return f"{results.environment}.\n\n{_table(head, body)}\n"


def replace_summary(text: str, summary: str) -> str:
    """Return the text with this table between its two markers."""
    between = re.compile(f"(?<={_BEGIN}\n).*(?={_END})", re.DOTALL)
    return between.sub(lambda _: f"\n{summary}\n", text)


def _goals(results: Results) -> Iterator[Sequence[str]]:
    yield "goal", "target", "result", "reached"
    for goal in goals(results):
        yield goal.text, goal.target, goal.result, "yes" if goal.reached else "**no**"


def _servers(results: Results, part: Part) -> Iterator[Sequence[str]]:
    yield (
        *("workload", "connections", CONSTANT, NAIVE, SERVICE),
        *(f"{SERVICE} / {CONSTANT}", f"{SERVICE} / {NAIVE}"),
        *("p50 naive", "p50 service", "p99 naive", "p99 service"),
    )
    for workload in results.workloads(part):
        for connections in results.connections(part):
            constant, naive, service = (
                results.median(part, name, workload, connections)
                for name in (CONSTANT, NAIVE, SERVICE)
            )
            yield (
                *(TITLES[workload], str(connections)),
                *map(_rate, (constant, naive, service)),
                *(_ratio(service.rate, other.rate) for other in (constant, naive)),
                *(_number(server.p50) for server in (naive, service)),
                *(_number(server.p99) for server in (naive, service)),
            )


def _workers(results: Results) -> Iterator[Sequence[str]]:
    yield "workload", "connections", ONE_WORKER, TWO_WORKERS, "ratio"
    for workload in results.workloads(Part.WORKERS):
        for connections in results.connections(Part.WORKERS):
            one, two = (
                results.median(Part.WORKERS, name, workload, connections)
                for name in (ONE_WORKER, TWO_WORKERS)
            )
            ratio = _ratio(two.rate, one.rate)
            yield TITLES[workload], str(connections), _rate(one), _rate(two), ratio


def _growth(results: Results) -> Iterator[Sequence[str]]:
    subjects = results.subjects(Part.GROWTH)
    latencies = (f"p50, {name}" for name in subjects)
    yield "workload", "connections", *subjects, "last / first", *latencies
    for workload in results.workloads(Part.GROWTH):
        for connections in results.connections(Part.GROWTH):
            sizes = [results.median(Part.GROWTH, name, workload, connections) for name in subjects]
            ratio = _ratio(sizes[-1].rate, sizes[0].rate)
            yield (
                *(GROWTH_TITLES[workload], str(connections), *map(_rate, sizes), ratio),
                *(_number(size.p50) for size in sizes),
            )


def _full_lists(results: Results) -> Iterator[Sequence[str]]:
    yield "GET", "persons", "seconds", "MB sent", "memory growth in MB"
    for one in results.full_lists:
        sent, memory = _number(one.bytes / 1e6), _number(one.memory / 1e6)
        yield f"`{one.path}`", f"{one.persons:,}", _number(one.seconds), sent, memory


def _neighbours(results: Results) -> Iterator[Sequence[str]]:
    yield (
        *("next to", "p99 of the loop lag", "p50 of reads", "p99", "p50 of writes", "p99"),
        *("heavy requests answered", "refused"),
    )
    for one in results.neighbours:
        cells = (one.lag.p99, one.reads.p50, one.reads.p99, one.writes.p50, one.writes.p99)
        counts = f"{one.answered:,}", f"{one.refused:,}"
        yield HEAVY_TITLES.get(one.workload, one.workload), *map(_number, cells), *counts


def _overloads(results: Results) -> Iterator[Sequence[str]]:
    yield "workload", *(f"{count:,} connections" for count in (BUSY, OVERLOAD)), "ratio"
    for workload in results.workloads(Part.OVERLOAD):
        busy, overload = (
            results.median(Part.OVERLOAD, SERVICE, workload, count) for count in (BUSY, OVERLOAD)
        )
        ratio = _ratio(overload.rate, busy.rate)
        yield TITLES[workload], _rate(busy), _rate(overload), ratio


def _followers(results: Results) -> Iterator[Sequence[str]]:
    yield (
        *("followers", "changes", "missed", "p50 until the event", "p99", "CPU seconds per second"),
        *("KiB per follower", "p99 of reads without", "p99 of reads beside"),
    )
    for one in results.followers:
        figures = one.p50, one.p99, one.cpu, one.memory / 2**10, one.alone.p99, one.beside.p99
        yield f"{one.count:,}", f"{one.changes:,}", str(one.missed), *map(_number, figures)


def _rate(metrics: Metrics) -> str:
    failed = f" ({metrics.failed:,} failed)" if metrics.failed else ""
    return _number(metrics.rate) + failed


def _number(value: float) -> str:
    """Format with three significant digits, or with all digits before the decimal point."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _times(one: float, other: float) -> str:
    return f"{one / other:.1f}"


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.3g}"


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
