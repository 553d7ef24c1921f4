"""The summary of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of what was created and skipped; only confirmed creations count."""

    persons: int = 0
    computers: int = 0
    owned: int = 0
    invalid_rows: int = 0
    lines_in_progress: set[int] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        text = (
            f"created {counted(self.persons, 'person')} and {counted(self.computers, 'computer')}, "
            f"{self.owned} of them with an owner, in {time.monotonic() - self.started:.1f} s"
        )
        if self.invalid_rows:
            text += f"; skipped {counted(self.invalid_rows, 'invalid row')}"
        if self.lines_in_progress:
            text += f"; rows from line {min(self.lines_in_progress)} on may be missing"
        return text


def counted(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural unless it is one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
