"""The samples of a benchmark run, and their medians over all rounds."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

from benchmark.client import Latencies
from benchmark.load import Metrics

CONSTANT, NAIVE, SERVICE = "constant", "naive", "service"
"""The servers that are compared."""

ONE_WORKER, TWO_WORKERS = "one worker", "two workers"
"""The subjects of the part `workers`."""


class Part(StrEnum):
    """A part of the benchmark."""

    SERVERS = "servers"
    PRODUCTION = "production"
    WORKERS = "workers"
    GROWTH = "growth"
    NEIGHBOURS = "neighbours"
    OVERLOAD = "overload"
    FOLLOWERS = "followers"


@dataclass(frozen=True)
class Sample:
    """One measurement of one subject under one workload."""

    part: Part
    subject: str
    workload: str
    connections: int
    metrics: Metrics


@dataclass(frozen=True)
class FullList:
    """The download of a whole collection. memory: growth of the service's peak, in bytes."""

    path: str
    persons: int
    seconds: float
    bytes: int
    memory: int


@dataclass(frozen=True)
class Neighbour:
    """Small requests next to a heavy workload, by its name, or to none.

    lag: of requests that the service answers without its database, as soon as its event loop is
    free. reads, writes: of one person. answered, refused: the numbers of heavy requests.
    """

    workload: str
    lag: Latencies
    reads: Latencies
    writes: Latencies
    answered: int = 0
    refused: int = 0


@dataclass(frozen=True)
class Followers:
    """Clients that follow the change feed.

    missed: changes that did not reach a follower, in total. p50, p99: from the request of a change
    to its event, in milliseconds. cpu: seconds of the service per second, beside what the changes
    take without followers. memory: of the service per follower, in bytes. alone, beside: the
    latencies of reads without and with followers.
    """

    count: int
    changes: int
    missed: int
    p50: float
    p99: float
    cpu: float
    memory: int
    alone: Latencies
    beside: Latencies


@dataclass
class Results:
    """Everything that a run measured. environment: the hardware, the versions and the settings."""

    environment: str
    samples: list[Sample] = field(default_factory=list)
    full_lists: list[FullList] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)
    followers: list[Followers] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of failed requests in all samples."""
        small = (each for one in self.neighbours for each in (one.lag, one.reads, one.writes))
        failed = sum(latencies.failed for latencies in small)
        failed += sum(one.missed + one.beside.failed for one in self.followers)
        return failed + sum(sample.metrics.failed for sample in self.samples)

    def median(self, part: Part, subject: str, workload: str, connections: int) -> Metrics:
        """Return the median of each metric over all rounds, and the sum of the failures."""
        key = (part, subject, workload, connections)
        rounds = [
            sample.metrics
            for sample in self.samples
            if (sample.part, sample.subject, sample.workload, sample.connections) == key
        ]
        return Metrics(
            median(metrics.rate for metrics in rounds),
            median(metrics.p50 for metrics in rounds),
            median(metrics.p99 for metrics in rounds),
            sum(metrics.failed for metrics in rounds),
        )

    def has(self, part: Part, workload: str, connections: int) -> bool:
        """Whether a workload was measured; if so, it was for all subjects of the part."""
        return workload in self.workloads(part) and connections in self.connections(part)

    def workloads(self, part: Part) -> list[str]:
        """Return the names of the workloads of a part, in the order of their measurement."""
        return _unique(sample.workload for sample in self.samples if sample.part == part)

    def subjects(self, part: Part) -> list[str]:
        """Return the names of the subjects of a part, in the order of their measurement."""
        return _unique(sample.subject for sample in self.samples if sample.part == part)

    def connections(self, part: Part) -> list[int]:
        """Return the numbers of connections of a part, in ascending order."""
        return sorted({sample.connections for sample in self.samples if sample.part == part})


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
