"""The progress of a run, and its summary."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import monotonic

from registry.model.graph import Graph
from registry.program import note

LINE_SECONDS = 5.0
"""Seconds between lines of progress where standard error is not a terminal."""


def counted(graph: Graph, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield counts as text, such as `1 person`. counts: by collection, or another plural."""
    singular = {resource.collection: resource.type for resource in graph.values()}
    for name, count in counts.items():
        yield f"{count:,} {singular.get(name, name) if count == 1 else name}"


@dataclass
class Tally:
    """The progress of a run.

    counts: resources that the service has confirmed, by effect and type. rows: of the file, with
    the invalid ones.
    """

    graph: Graph
    url: str
    is_dry: bool = False
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    rows: int = 0
    invalid_rows: int = 0
    started: float = field(default_factory=monotonic)
    shown: float = field(default_factory=monotonic)

    def show(self) -> None:
        """Show the progress: on one line of a terminal, otherwise on another every few seconds."""
        now = monotonic()
        text = f"{self.rows:,} rows, {self.rows / (now - self.started):,.0f} per second"
        if self._is_terminal:
            note(text, end="\r")
        elif now - self.shown >= LINE_SECONDS:
            self.shown = now
            note(text)

    def clear(self) -> None:
        """Remove the line of the progress from the terminal."""
        if self._is_terminal:
            note("", end="\r")

    @property
    def _is_terminal(self) -> bool:
        return sys.stderr is not None and sys.stderr.isatty()

    def __str__(self) -> str:
        parts = []
        for effect in dict.fromkeys(effect for effect, _ in self.counts):
            of_type = {
                self.graph[name].collection: count
                for (one, name), count in self.counts.items()
                if one == effect
            }
            parts.append(f"{effect} {' and '.join(counted(self.graph, of_type))}")
        seconds = monotonic() - self.started
        speed = f"{seconds:.1f} s, {self.rows / max(seconds, 0.001):,.0f} rows per second"
        text = f"{', '.join(parts) or 'changed nothing'} at {self.url}, in {speed}"
        if self.invalid_rows:
            text += f"; skipped {self.invalid_rows:,} invalid row{'s' * (self.invalid_rows > 1)}"
        return f"dry run, nothing is stored: {text}" if self.is_dry else text
