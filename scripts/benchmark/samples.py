"""The samples of a benchmark run, and their medians over all rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median, quantiles
from typing import Self

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
    ISOLATION = "isolation"
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
class Percentiles:
    """The latencies of requests sent one after another, in milliseconds."""

    p50: float
    p99: float
    longest: float


@dataclass(frozen=True)
class LoopLag:
    """Small requests next to a heavy workload, by its name, or to none.

    lag: of requests that the service answers without its database, as soon as its event loop is
    free. read, write: of one person.
    """

    workload: str
    lag: Percentiles
    read: Percentiles
    write: Percentiles


@dataclass(frozen=True)
class Latencies:
    """The latency of requests in milliseconds. failed: those without a response of status 2xx."""

    p50: float
    p99: float
    failed: int

    @classmethod
    def of(cls, outcomes: Sequence[tuple[float, bool]]) -> Self:
        """Return the percentiles. outcomes: the seconds of each request, whether it succeeded."""
        percentiles = quantiles((1e3 * one for one, _ in outcomes), n=100, method="inclusive")
        failed = sum(not succeeded for _, succeeded in outcomes)
        return cls(percentiles[49], percentiles[98], failed)


@dataclass(frozen=True)
class Neighbour:
    """Cheap requests next to heavy ones.

    answered, refused, failed: the numbers of heavy requests with a response of status 200, 503 or
    any other. seconds: the longest time until such a response.
    """

    name: str
    reads: Latencies
    writes: Latencies
    answered: int
    refused: int
    failed: int
    seconds: float


@dataclass(frozen=True)
class Overload:
    """More requests than the service can answer.

    capacity, rate: successful requests per second at its limit, and beyond it. refused: responses
    with an error. failed: requests without a response. memory: growth in the second half, in
    bytes. recovery: seconds from the last request of the load to the last slow response.
    """

    workload: str
    capacity: float
    rate: float
    refused: int
    failed: int
    memory: int
    recovery: float


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
    loop_lags: list[LoopLag] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)
    overloads: list[Overload] = field(default_factory=list)
    followers: list[Followers] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of failed requests in all samples."""
        cheap = (each for one in self.neighbours for each in (one.reads, one.writes))
        failed = sum(latencies.failed for latencies in cheap)
        failed += sum(one.failed for one in self.neighbours)
        failed += sum(one.failed for one in self.overloads)
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
