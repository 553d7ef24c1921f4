"""The progress of a run, and its summary."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import NoReturn

from tqdm import tqdm

from registry.model.graph import Graph
from registry.printable import printable

LINE_SECONDS = 5.0
"""Seconds between lines of progress where standard error is not a terminal."""


def counted(graph: Graph, counts: Mapping[str, int]) -> str:
    """Return counts of resources by type as text, such as `1 person and 2 computers`."""
    return " and ".join(
        f"{count:,} {name if count == 1 else graph[name].collection}"
        for name, count in counts.items()
    )


@dataclass
class Tally:
    """The summary of a run.

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

    def __str__(self) -> str:
        parts = []
        for effect in dict.fromkeys(effect for effect, _ in self.counts):
            of_type = {name: count for (one, name), count in self.counts.items() if one == effect}
            parts.append(f"{effect} {counted(self.graph, of_type)}")
        seconds = monotonic() - self.started
        speed = f"{seconds:.1f} s, {self.rows / max(seconds, 0.001):,.0f} rows per second"
        text = f"{', '.join(parts) or 'changed nothing'} at {self.url}, in {speed}"
        if self.invalid_rows:
            text += f"; skipped {self.invalid_rows:,} invalid row{'s' * (self.invalid_rows > 1)}"
        return f"dry run, nothing is stored: {text}" if self.is_dry else text


class Progress:
    """Shows a bar on a terminal, otherwise a line every few seconds, on stderr."""

    def __init__(self, bar: "tqdm[NoReturn]", noun: str) -> None:
        self._bar = bar
        self._noun = noun
        self._count = 0
        self._started = self._shown = monotonic()

    def show(self, count: int) -> None:
        """Show how many items are done."""
        self._bar.update(count - self._count)
        self._count = count
        now = monotonic()
        if self._bar.disable and now - self._shown >= LINE_SECONDS:
            self._shown = now
            rate = self._count / (now - self._started)
            self.note(f"{self._count:,} {self._noun}, {rate:,.0f} per second")

    def note(self, line: str) -> None:
        """Write a line to stderr, above the bar."""
        if sys.stderr is not None:  # as it is if closed; tqdm would then write to standard output
            self._bar.write(printable(line), file=sys.stderr)


@contextmanager
def shown_progress(noun: str, total: int | None = None) -> Iterator[Progress]:
    """Yield the progress of items. noun: what they are, in the plural."""
    # None: shows the bar only on a terminal.
    disable = True if sys.stderr is None else None
    with tqdm(total=total, unit=f" {noun}", disable=disable, leave=False) as bar:
        yield Progress(bar, noun)
