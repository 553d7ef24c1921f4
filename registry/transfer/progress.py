"""The progress of a run: a bar on a terminal, otherwise a line every few seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import NoReturn

from tqdm import tqdm

from registry.printable import printable

SECONDS = 5.0
"""Between lines."""


class Progress:
    """Counts items, and shows how many there are of a total, if that is known, on stderr."""

    def __init__(self, bar: "tqdm[NoReturn]", noun: str) -> None:
        self._bar = bar
        self._noun = noun
        self._count = 0
        self._started = self._shown = monotonic()

    def add(self, count: int, advance: int | None = None) -> None:
        """Add items that are done. advance: of the bar, if its unit is not the item."""
        self._count += count
        self._bar.update(count if advance is None else advance)
        now = monotonic()
        if self._bar.disable and now - self._shown >= SECONDS:
            self._shown = now
            rate = self._count / (now - self._started)
            self.note(f"{self._count:,} {self._noun}, {rate:,.0f} per second")

    def note(self, line: str) -> None:
        """Write a line to stderr, above the bar."""
        if sys.stderr is not None:  # as it is if closed; tqdm would then write to standard output
            self._bar.write(printable(line), file=sys.stderr)


@contextmanager
def shown_progress(
    noun: str, total: int | None = None, *, is_bytes: bool = False
) -> Iterator[Progress]:
    """Yield the progress of items. noun: what they are, in the plural.

    total: of items, or of the bytes that contain them.
    """
    unit = "B" if is_bytes else f" {noun}"
    # None: shows the bar only on a terminal.
    disable = True if sys.stderr is None else None
    with tqdm(total=total, unit=unit, unit_scale=is_bytes, disable=disable, leave=False) as bar:
        yield Progress(bar, noun)
