"""The chart of the comparison with other servers."""

from math import floor, log10
from pathlib import Path
from textwrap import fill

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from benchmark.samples import CONSTANT, NAIVE, SERVICE, Part, Results
from benchmark.workloads import TITLES

_COLOURS = {CONSTANT: "#9e9e9e", NAIVE: "#e08214", SERVICE: "#1b7837"}
_COLUMNS = 3

_TITLE_WIDTH = 34
"""Characters of a line above a panel, which is narrower than some titles."""


def draw(results: Results, directory: Path) -> None:
    """Write benchmark.png, if there are results for it.

    It shows requests per second over connections: a panel per workload, a line per server. All
    panels span the same whole powers of ten, so that they compare and small ratios look small.
    """
    workloads, counts = results.workloads(Part.SERVERS), results.connections(Part.SERVERS)
    if not workloads:
        return
    rows = -(-len(workloads) // _COLUMNS)
    figure = Figure(figsize=(11, 3.4 * rows), layout=ConstrainedLayoutEngine(h_pad=0.15))
    grid = figure.subplots(rows, _COLUMNS, squeeze=False, sharey=True)
    positions, shown = range(len(counts)), list[float]()
    for panel, workload in zip(grid.flat, workloads, strict=False):
        for server, colour in _COLOURS.items():
            rates = [results.median(Part.SERVERS, server, workload, count).rate for count in counts]
            panel.plot(positions, rates, marker="o", color=colour, label=server)
            shown += rates
        panel.set_xticks(positions, [str(count) for count in counts])
        panel.set_title(fill(TITLES[workload], _TITLE_WIDTH), pad=10)
        panel.grid(visible=True, alpha=0.25)
        panel.set_xlabel("connections")
    for panel in grid.flat[len(workloads) :]:
        panel.remove()
    for row in grid:
        row[0].set_ylabel("requests per second")
    scale = grid.flat[0]
    scale.set_yscale("log")
    scale.set_ylim(10 ** floor(log10(min(shown))), 10 ** (floor(log10(max(shown))) + 1))
    scale.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    scale.yaxis.set_minor_formatter(NullFormatter())
    figure.legend(*scale.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    figure.savefig(directory / "benchmark.png", dpi=110)
