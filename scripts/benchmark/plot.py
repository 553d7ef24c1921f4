"""The charts."""

from __future__ import annotations

from math import floor, log10
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from benchmark.samples import CONSTANT, NAIVE, SERVICE, Part, Results
from benchmark.workloads import GROWTH_TITLES, TITLES

_COLOURS = {CONSTANT: "#9e9e9e", NAIVE: "#e08214", SERVICE: "#1b7837"}
_COLUMNS = 3


def draw(results: Results, directory: Path) -> None:
    """Write benchmark.png and growth.png, if there are results for them."""
    if workloads := results.workloads(Part.SERVERS):
        _servers(results, workloads).savefig(directory / "benchmark.png", dpi=110)
    if workloads := results.workloads(Part.GROWTH):
        _growth(results, workloads).savefig(directory / "growth.png", dpi=110)


def _servers(results: Results, workloads: list[str]) -> Figure:
    """Plot requests per second over connections: a panel per workload, a line per server."""
    rows = -(-len(workloads) // _COLUMNS)
    figure = Figure(figsize=(11, 3.4 * rows), layout="constrained")
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).flat
    counts = results.connections(Part.SERVERS)
    positions = range(len(counts))
    for panel, workload in zip(panels, workloads, strict=False):
        for server, colour in _COLOURS.items():
            rates = [_rate(results, Part.SERVERS, server, workload, count) for count in counts]
            panel.plot(positions, rates, marker="o", color=colour, label=server)
        panel.set_xticks(positions, [str(count) for count in counts])
        _label(panel, TITLES[workload])
        panel.set_xlabel("connections")
        _set_log_scale(panel)
    for panel in list(figure.axes)[len(workloads) :]:
        panel.remove()
    figure.axes[0].legend()
    return figure


def _growth(results: Results, workloads: list[str]) -> Figure:
    """Plot requests per second over database size, a line per workload; and memory growth."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    rates, memory = figure.subplots(1, 2)
    sizes = results.subjects(Part.GROWTH)
    connections = results.connections(Part.GROWTH)[-1]
    for workload in workloads:
        values = [_rate(results, Part.GROWTH, size, workload, connections) for size in sizes]
        rates.plot(sizes, values, marker="o", label=GROWTH_TITLES[workload])
    _label(rates, f"{connections} connections")
    rates.set_ylim(bottom=0)
    rates.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    rates.legend()
    labels = [f"{one.path}\nof {one.persons:,} persons" for one in results.full_lists]
    memory.barh(labels, [one.memory / 1e6 for one in results.full_lists], color=_COLOURS[SERVICE])
    memory.invert_yaxis()
    memory.set_title("whole collections")
    memory.set_xlabel("memory growth in MB")
    return figure


def _rate(results: Results, part: Part, subject: str, workload: str, connections: int) -> float:
    return results.median(part, subject, workload, connections).rate


def _label(panel: Axes, title: str) -> None:
    panel.set_title(title)
    panel.set_ylabel("requests per second")
    panel.grid(visible=True, alpha=0.25)


def _set_log_scale(panel: Axes) -> None:
    """Span whole powers of ten, so that a small ratio does not look large."""
    panel.set_yscale("log")
    low, high = (log10(value) for value in panel.dataLim.intervaly)
    panel.set_ylim(10 ** floor(low), 10 ** (floor(high) + 1))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
