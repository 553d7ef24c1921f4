"""The charts."""

from __future__ import annotations

from math import floor, log10
from pathlib import Path
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, NullFormatter, NullLocator, StrMethodFormatter

from benchmark.samples import CONSTANT, NAIVE, SERVICE, Part, Results
from benchmark.workloads import GROWTH_TITLES, TITLES

_COLOURS = {CONSTANT: "#9e9e9e", NAIVE: "#e08214", SERVICE: "#1b7837"}
_COLUMNS = 3

_TITLE_WIDTH = 34
"""Characters of a line above a panel, which is narrower than some titles."""

_CYCLE, _MARKERS = 10, "os^"
"""matplotlib has ten colours for lines; a further ten lines have another marker."""

_SHORT = EngFormatter(sep="")
"""Numbers such as 10k and 3M."""


def draw(results: Results, directory: Path) -> None:
    """Write benchmark.png and growth.png, if there are results for them."""
    if workloads := results.workloads(Part.SERVERS):
        plot_servers(results, workloads).savefig(directory / "benchmark.png", dpi=110)
    if workloads := results.workloads(Part.GROWTH):
        plot_growth(results, workloads).savefig(directory / "growth.png", dpi=110)


def plot_servers(results: Results, workloads: list[str]) -> Figure:
    """Plot requests per second over connections: a panel per workload, a line per server."""
    rows = -(-len(workloads) // _COLUMNS)
    figure = Figure(figsize=(11, 3.4 * rows), layout=ConstrainedLayoutEngine(h_pad=0.15))
    grid = figure.subplots(rows, _COLUMNS, squeeze=False, sharey=True)
    counts = results.connections(Part.SERVERS)
    positions = range(len(counts))
    for panel, workload in zip(grid.flat, workloads, strict=False):
        for server, colour in _COLOURS.items():
            rates = [_rate(results, Part.SERVERS, server, workload, count) for count in counts]
            panel.plot(positions, rates, marker="o", color=colour, label=server)
        panel.set_xticks(positions, [str(count) for count in counts])
        _label(panel, fill(TITLES[workload], _TITLE_WIDTH))
        panel.set_xlabel("connections")
    for panel in grid.flat[len(workloads) :]:
        panel.remove()
    for row in grid:
        row[0].set_ylabel("requests per second")
    _set_log_scale(list(grid.flat[: len(workloads)]))
    figure.legend(*grid.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def plot_growth(results: Results, workloads: list[str]) -> Figure:
    """Plot over database size: requests per second, a line per workload; and memory growth."""
    figure = Figure(figsize=(11, 6), layout="constrained")
    rates, memory = figure.subplots(1, 2)
    subjects = results.subjects(Part.GROWTH)
    sizes = [int(name.partition(" ")[0].replace(",", "")) for name in subjects]
    connections = results.connections(Part.GROWTH)[-1]
    for number, workload in enumerate(workloads):
        values = [_rate(results, Part.GROWTH, name, workload, connections) for name in subjects]
        marker = _MARKERS[number // _CYCLE]
        rates.plot(sizes, values, marker=marker, label=GROWTH_TITLES[workload])
    _label(rates, f"requests per second, {connections} connections")
    _set_log_scale([rates])
    for path in dict.fromkeys(one.path for one in results.full_lists):
        points = [(one.persons, one.memory / 1e6) for one in results.full_lists if one.path == path]
        memory.plot(*zip(*points, strict=True), marker="o", label=path)
    _label(memory, "memory growth in MB, whole collections")
    memory.set_ylim(bottom=0, top=max(1.0, memory.dataLim.ymax * 1.1))
    memory.legend()
    for panel in (rates, memory):
        panel.set_xscale("log")
        panel.set_xticks(sizes, [_SHORT(size) for size in sizes])
        panel.xaxis.set_minor_locator(NullLocator())
        panel.set_xlabel("persons")
    figure.legend(*rates.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _rate(results: Results, part: Part, subject: str, workload: str, connections: int) -> float:
    return results.median(part, subject, workload, connections).rate


def _label(panel: Axes, title: str) -> None:
    panel.set_title(title, pad=10)
    panel.grid(visible=True, alpha=0.25)


def _set_log_scale(panels: list[Axes]) -> None:
    """Span the same whole powers of ten, so that panels compare and small ratios look small."""
    lows, highs = zip(*(panel.dataLim.intervaly for panel in panels), strict=True)
    for panel in panels:
        panel.set_yscale("log")
        panel.set_ylim(10 ** floor(log10(min(lows))), 10 ** (floor(log10(max(highs))) + 1))
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        panel.yaxis.set_minor_formatter(NullFormatter())
