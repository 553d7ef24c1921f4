"""The pictures."""

from __future__ import annotations

from math import floor, log10
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from benchmark.samples import CONSTANT, NAIVE, SERVICE, Part, Results
from benchmark.works import GROWING_TITLES, TITLES

_COLOURS = {CONSTANT: "#9e9e9e", NAIVE: "#e08214", SERVICE: "#1b7837"}
_COLUMNS = 3


def draw(results: Results, directory: Path) -> None:
    """Write benchmark.png and growth.png, as far as there are figures for them."""
    if works := results.works(Part.SERVERS):
        _servers(results, works).savefig(directory / "benchmark.png", dpi=110)
    if works := results.works(Part.GROWTH):
        _growth(results, works).savefig(directory / "growth.png", dpi=110)


def _servers(results: Results, works: list[str]) -> Figure:
    """Draw a panel for each work: requests a second by connections, one line a server."""
    lines = -(-len(works) // _COLUMNS)
    figure = Figure(figsize=(11, 3.4 * lines), layout="constrained")
    panels = figure.subplots(lines, _COLUMNS, squeeze=False).flat
    counts = results.connections(Part.SERVERS)
    places = range(len(counts))
    for panel, work in zip(panels, works, strict=False):
        for server, colour in _COLOURS.items():
            rates = [_rate(results, Part.SERVERS, server, work, count) for count in counts]
            panel.plot(places, rates, marker="o", color=colour, label=server)
        panel.set_xticks(places, [str(count) for count in counts])
        _label(panel, TITLES[work])
        panel.set_xlabel("connections")
        _widen(panel)
    for panel in list(figure.axes)[len(works) :]:
        panel.remove()
    figure.axes[0].legend()
    return figure


def _growth(results: Results, works: list[str]) -> Figure:
    """Draw requests a second by the size of the database, one line a work; and the memory."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    rates, memory = figure.subplots(1, 2)
    sizes = results.subjects(Part.GROWTH)
    (connections,) = results.connections(Part.GROWTH)
    for work in works:
        values = [_rate(results, Part.GROWTH, size, work, connections) for size in sizes]
        rates.plot(sizes, values, marker="o", label=GROWING_TITLES[work])
    _label(rates, f"{connections} connections")
    rates.set_ylim(bottom=0)
    rates.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    rates.legend()
    labels = [f"{one.path}\nof {one.persons:,} persons" for one in results.lists]
    memory.barh(labels, [one.memory / 1e6 for one in results.lists], color=_COLOURS[SERVICE])
    memory.invert_yaxis()
    memory.set_title("whole collections")
    memory.set_xlabel("MB by which the memory of the service grows")
    return figure


def _rate(results: Results, part: Part, subject: str, work: str, connections: int) -> float:
    return results.median(part, subject, work, connections).rate


def _label(panel: Axes, title: str) -> None:
    panel.set_title(title)
    panel.set_ylabel("requests a second")
    panel.grid(visible=True, alpha=0.25)


def _widen(panel: Axes) -> None:
    """Show whole powers of ten, so that a small ratio does not look large."""
    panel.set_yscale("log")
    least, most = (log10(value) for value in panel.dataLim.intervaly)
    panel.set_ylim(10 ** floor(least), 10 ** (floor(most) + 1))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
