"""What was measured: single measurements, and the medians of those of the same kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from benchmark.load import Figures

CONSTANT, NAIVE, SERVICE = "constant", "naive", "service"
"""The servers that are compared."""

ONE_WORKER, TWO_WORKERS = "one worker", "two workers"
"""The services that are compared."""


class Part(StrEnum):
    """A part of the benchmark."""

    SERVERS = "servers"
    WORKERS = "workers"
    GROWTH = "growth"


@dataclass(frozen=True)
class Sample:
    """One measurement. part: of the benchmark; subject: what was measured."""

    part: Part
    subject: str
    work: str
    connections: int
    figures: Figures


@dataclass(frozen=True)
class FullList:
    """One collection read as a whole, and by how much the memory of the service grew meanwhile."""

    path: str
    persons: int
    seconds: float
    bytes: int
    memory: int


@dataclass
class Results:
    """All that a run has measured. machine: where, and how."""

    machine: str
    samples: list[Sample] = field(default_factory=list)
    lists: list[FullList] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """How many requests have failed in all."""
        return sum(one.figures.failed for one in self.samples)

    def median(self, part: Part, subject: str, work: str, connections: int) -> Figures:
        """Return the medians of all rounds, each figure by itself, and all failures."""
        wanted = (part, subject, work, connections)
        found = [
            one.figures
            for one in self.samples
            if (one.part, one.subject, one.work, one.connections) == wanted
        ]
        return Figures(
            median(one.rate for one in found),
            median(one.p50 for one in found),
            median(one.p99 for one in found),
            sum(one.failed for one in found),
        )

    def has(self, part: Part, work: str, connections: int) -> bool:
        """Whether there are figures of a work, which there are for all subjects of a part then."""
        return work in self.works(part) and connections in self.connections(part)

    def works(self, part: Part) -> list[str]:
        """Return the names of the works of a part, in their order."""
        return _once(one.work for one in self.samples if one.part == part)

    def subjects(self, part: Part) -> list[str]:
        """Return the subjects of a part, in their order."""
        return _once(one.subject for one in self.samples if one.part == part)

    def connections(self, part: Part) -> list[int]:
        """Return the numbers of connections of a part, rising."""
        return sorted({one.connections for one in self.samples if one.part == part})


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
