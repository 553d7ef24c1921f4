"""The summary of a run."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from time import monotonic

from registry.transfer.rows import COMPUTER, PERSON, counted


class Effect(Enum):
    """What a run does with a resource."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "left unchanged"


@dataclass
class Tally:
    """The resources of a run, counted by effect and type once the service has confirmed them.

    In a dry run, they are counted once they are planned and checked.

    effects: those to report. is_dry: whether nothing is stored. owned: created computers that have
    an owner; None if they are not counted. lines_in_progress: the first line of each batch of rows.
    """

    effects: tuple[Effect, ...] = (Effect.CREATED,)
    is_dry: bool = False
    counts: Counter[tuple[Effect, str]] = field(default_factory=Counter)
    owned: int | None = None
    invalid_rows: int = 0
    lines_in_progress: set[int] = field(default_factory=set)
    started: float = field(default_factory=monotonic)

    def __str__(self) -> str:
        parts = [self._part(effect) for effect in self.effects]
        if self.owned is not None:
            parts.append(f"{self.owned:,} of them with an owner")
        text = f"{', '.join(parts)}, in {monotonic() - self.started:.1f} s"
        if self.invalid_rows:
            text += f"; skipped {counted(self.invalid_rows, 'invalid row')}"
        if self.lines_in_progress:
            text += f"; rows from line {min(self.lines_in_progress)} on may be missing"
        return f"dry run, nothing is stored: {text}" if self.is_dry else text

    def _part(self, effect: Effect) -> str:
        persons, computers = self.counts[effect, PERSON], self.counts[effect, COMPUTER]
        return f"{effect.value} {counted(persons, 'person')} and {counted(computers, 'computer')}"
