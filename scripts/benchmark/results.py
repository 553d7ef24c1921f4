"""The results of a run."""

from dataclasses import dataclass, field

from benchmark.load import Metrics

SERVERS, PRODUCTION, GROWTH, NEIGHBOURS, OVERLOAD = (
    *("servers", "production", "growth", "neighbours", "overload"),
)
"""The parts of the benchmark."""

CONSTANT, NAIVE, SERVICE = "constant", "naive", "service"
"""The servers that are compared."""

CONNECTIONS = 64
"""The number of connections of busy clients."""

BUSY, OVERLOADED = 256, 2_000
"""Numbers of connections that keep the service busy, and eight times as many."""

SMALL_REQUESTS = "reads", "writes"
"""The small requests that are sent next to heavy ones."""


@dataclass
class Results:
    """Everything that a run measured. environment: the hardware, the versions and the settings.

    metrics: by part, subject, title of the workload, and number of connections.
    """

    environment: str
    metrics: dict[tuple[str, str, str, int], Metrics] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """The number of failed requests."""
        return sum(metrics.failed for metrics in self.metrics.values())

    def subjects(self, part: str) -> list[str]:
        """Return the names of the subjects of a part, in the order of their measurement."""
        return list(dict.fromkeys(subject for name, subject, *_ in self.metrics if name == part))

    def workloads(self, part: str) -> list[str]:
        """Return the titles of the workloads of a part, in the order of their measurement."""
        return list(dict.fromkeys(title for name, _, title, _ in self.metrics if name == part))
