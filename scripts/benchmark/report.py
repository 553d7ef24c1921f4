"""The tables of the results, in Markdown, with the goals that the service is held to."""

import re
from collections.abc import Iterator, Sequence

from benchmark import results as names
from benchmark import workloads
from benchmark.load import Metrics
from benchmark.results import BUSY, CONNECTIONS, CONSTANT, NAIVE, OVERLOADED, SERVICE, Results

MISSED = "**missed**"
"""What follows a goal that is not reached."""

_MIN_RATES = {
    (names.SERVERS, CONNECTIONS): {
        workloads.READ: 1.5,
        workloads.READ_INCLUDE: 1.2,
        workloads.LIST: 1.0,
        workloads.CREATE: 2.5,
        workloads.CREATE_OWNED: 1.8,
        workloads.UPDATE: 1.2,
    },
    (names.PRODUCTION, CONNECTIONS): {
        workloads.READ: 1.5,
        workloads.CREATE: 5.0,
        workloads.CREATE_OWNED: 4.0,
        workloads.UPDATE: 2.5,
        workloads.REPLACE: 2.0,
    },
    (names.SERVERS, 1): dict.fromkeys(workloads.COMPARED, 0.3),
}
"""The service's rate as a minimum multiple of the naive server's, by part and connections."""

_MAX_GROWTH = 3.0
"""The median latency at the greatest size, as a maximum multiple of that at the least size."""

_MAX_NEIGHBOUR_MS = 500.0
"""The 99th percentile of the latency of small reads next to heavy requests. Small writes take turns
with large ones."""

_MIN_OVERLOAD = 0.6
"""The rate on OVERLOADED connections, as a share of that on BUSY ones."""

_BEGIN, _END = "<!-- benchmark -->", "<!-- end of benchmark -->"

Rows = Iterator[Sequence[str]]


def tables(results: Results) -> str:
    """Return all tables for which there are results; the first is that of `replace_summary`."""
    sections = {
        f"{results.environment}.": _summary(results),
        f"{CONNECTIONS} connections; latencies in ms": _servers(
            results, names.SERVERS, CONNECTIONS
        ),
        "One connection": _servers(results, names.SERVERS, 1),
        f"{CONNECTIONS} connections, with a replica set of three members, TLS, passwords, tokens": (
            _servers(results, names.PRODUCTION, CONNECTIONS)
        ),
        "Growth: median latency in ms on one connection": _growth(results),
        "Small requests on one connection each, next to heavy ones; latencies in ms": (
            _neighbours(results)
        ),
        "Overload: requests per second by number of connections": _overload(results),
    }
    parts = []
    for title, rows in sections.items():
        head, *body = rows
        if body:
            lines = (head, ["---"] * len(head), *body)
            parts.append("\n".join((title, "", *(f"| {' | '.join(line)} |" for line in lines))))
    return "\n\n".join(parts) + "\n"


def replace_summary(page: str, tables: str) -> str:
    """Return the page with the first table between its two markers."""
    between = re.compile(f"(?<={_BEGIN}\n).*(?={_END})", re.DOTALL)
    summary = "\n\n".join(tables.split("\n\n")[:2])
    return between.sub(lambda _: f"\n{summary}\n\n", page)


def _summary(results: Results) -> Rows:
    yield (
        *("requests per second", CONSTANT, NAIVE, SERVICE, f"{SERVICE} / {NAIVE}"),
        *("in production", "on one connection"),
    )
    for title in results.workloads(names.SERVERS):
        rates = [
            results.metrics[names.SERVERS, name, title, CONNECTIONS].rate
            for name in (CONSTANT, NAIVE, SERVICE)
        ]
        ratios = [_ratio(results, part, title, count) for part, count in _MIN_RATES]
        yield title, *map(_number, rates), *(f"{ratio:.1f}" if ratio else "" for ratio in ratios)


def _ratio(results: Results, part: str, title: str, connections: int) -> float:
    """Return the service's rate as a multiple of the naive server's, 0 without results."""
    if title not in results.workloads(part):
        return 0
    service, naive = (
        results.metrics[part, name, title, connections].rate for name in (SERVICE, NAIVE)
    )
    return service / naive


def _servers(results: Results, part: str, connections: int) -> Rows:
    yield (
        *("workload", CONSTANT, NAIVE, SERVICE, f"{SERVICE} / {NAIVE}", "goal"),
        *("p50 naive", "p50 service", "p99 naive", "p99 service"),
    )
    goals = _MIN_RATES[part, connections]
    for title in results.workloads(part):
        constant, naive, service = (
            results.metrics[part, name, title, connections] for name in (CONSTANT, NAIVE, SERVICE)
        )
        ratio = _ratio(results, part, title, connections)
        goal = _at_least(goals[title], ratio) if title in goals else ""
        rates = map(_rate, (constant, naive, service))
        latencies = naive.p50, service.p50, naive.p99, service.p99
        yield title, *rates, f"{ratio:.1f}", goal, *map(_number, latencies)


def _growth(results: Results) -> Rows:
    sizes = results.subjects(names.GROWTH)
    yield "workload", *sizes, "last / first", "goal"
    for title in results.workloads(names.GROWTH):
        latencies = [results.metrics[names.GROWTH, name, title, 1].p50 for name in sizes]
        ratio = latencies[-1] / latencies[0]
        goal = "" if title in workloads.GROWING else _at_most(_MAX_GROWTH, ratio)
        yield title, *map(_number, latencies), f"{ratio:.1f}", goal


def _neighbours(results: Results) -> Rows:
    yield "next to", "p50 of reads", "p99", "p50 of writes", "p99", "goal for p99 of reads"
    for subject in results.subjects(names.NEIGHBOURS):
        small = [
            results.metrics[names.NEIGHBOURS, subject, name, 1] for name in names.SMALL_REQUESTS
        ]
        latencies = [value for metrics in small for value in (metrics.p50, metrics.p99)]
        goal = _at_most(_MAX_NEIGHBOUR_MS, small[0].p99)
        yield subject, *map(_number, latencies), goal


def _overload(results: Results) -> Rows:
    yield "workload", f"{BUSY}", f"{OVERLOADED:,}", "ratio", "goal"
    for title in results.workloads(names.OVERLOAD):
        busy, most = (
            results.metrics[names.OVERLOAD, SERVICE, title, count] for count in (BUSY, OVERLOADED)
        )
        ratio = most.rate / busy.rate
        yield title, _rate(busy), _rate(most), f"{ratio:.1f}", _at_least(_MIN_OVERLOAD, ratio)


def _at_least(goal: float, value: float) -> str:
    return f"≥ {goal:g}" if value >= goal else f"≥ {goal:g} {MISSED}"


def _at_most(goal: float, value: float) -> str:
    return f"≤ {goal:g}" if value <= goal else f"≤ {goal:g} {MISSED}"


def _rate(metrics: Metrics) -> str:
    failed = f" ({metrics.failed:,} failed)" if metrics.failed else ""
    return _number(metrics.rate) + failed


def _number(value: float) -> str:
    """Format with three significant digits, or with all digits before the decimal point."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"
