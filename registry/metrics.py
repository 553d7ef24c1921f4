"""The metrics of the service: their families, the samples of this process, and sums over processes.

Counting takes an addition to a list: a counter of prometheus-client takes 1 to 2 us, a large part
of what reading one person takes. `registry.http.views.site` hands the sums to that library.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Sample: TypeAlias = list[float]
"""The value of a counter or a gauge; of a histogram the count of each bucket, then the sum."""

Samples: TypeAlias = dict[tuple[str, ...], Sample]
"""Samples by the values of their labels."""

MetricsSnapshot: TypeAlias = Mapping[str, Samples]
"""The samples of a process, or of several, at one moment, by the name of their family."""

_LATENCIES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


class Family:
    """A metric: for each combination of label values a sample, which starts with zeros."""

    def __init__(self, name: str, help_text: str, *labels: str) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = labels
        self._samples: Samples = {}
        if not labels:
            self.sample()

    def sample(self, *values: str) -> Sample:
        """Return the sample with these label values, to be changed in place."""
        sample = self._samples.get(values)
        return self._samples.setdefault(values, self._zero()) if sample is None else sample

    def read(self) -> Samples:
        """Return a copy of all samples. Other threads may add samples meanwhile."""
        return {values: list(sample) for values, sample in self._samples.copy().items()}

    def _zero(self) -> Sample:
        return [0.0]


class Counter(Family):
    """A metric that only rises; what a process has counted stays in the sums after its end."""


class Gauge(Family):
    """A metric of the present state, the sum over the processes that run."""

    def __init__(self, name: str, help_text: str, *labels: str) -> None:
        super().__init__(name, help_text, *labels)
        self._functions: dict[tuple[str, ...], Callable[[], float]] = {}

    def set_function(self, function: Callable[[], float], *values: str) -> None:
        """Call the function for the value of a sample whenever it is read."""
        self._functions[values] = function

    def read(self) -> Samples:
        """Return all samples."""
        functions = self._functions.items()
        return super().read() | {values: [function()] for values, function in functions}


class Histogram(Family):
    """A metric of the distribution of values. bounds: the largest value of each bucket."""

    def __init__(
        self, name: str, help_text: str, *labels: str, bounds: tuple[float, ...] = _LATENCIES
    ) -> None:
        self.bounds = bounds
        super().__init__(name, help_text, *labels)

    def observe(self, sample: Sample, value: float) -> None:
        """Add a value to a sample of this family."""
        sample[bisect_left(self.bounds, value)] += 1
        sample[-1] += value

    def _zero(self) -> Sample:
        return [0.0] * (len(self.bounds) + 2)


REQUESTS = Histogram(
    "registry_http_request_duration_seconds",
    "Time from the head of a request to the end of its response.",
    *("route", "method", "status"),
)
REQUESTS_IN_PROGRESS = Gauge(
    "registry_http_requests_in_progress", "Requests whose response has not ended."
)
BULKHEAD_IN_PROGRESS = Gauge(
    "registry_bulkhead_in_progress", "Operations in progress, by class.", "bulkhead"
)
BULKHEAD_WAITING = Gauge(
    "registry_bulkhead_waiting", "Operations in the queue of their class.", "bulkhead"
)
BULKHEAD_REFUSALS = Counter(
    "registry_bulkhead_refusals_total",
    "Operations refused with 503 as the limit of their class was reached.",
    *("bulkhead", "reason"),
)
BATCH_SIZE = Histogram(
    "registry_batch_size",
    "Operations that share a round trip to the database.",
    "batch",
    bounds=_SIZES,
)
BATCH_WAIT = Histogram(
    "registry_batch_wait_seconds",
    "Time that the first operation of a batch has waited for the batch to be sent.",
    "batch",
)
COMMANDS = Histogram(
    "registry_mongodb_command_duration_seconds",
    "Time from sending a command to MongoDB to its reply, or of a whole transaction.",
    *("command", "outcome"),
)
CONNECTIONS = Gauge("registry_mongodb_connections", "Open connections to MongoDB.")
CONNECTIONS_IN_USE = Gauge(
    "registry_mongodb_connections_in_use", "Connections to MongoDB that a command uses."
)
MONGOD_RESTARTS = Counter(
    "registry_mongod_restarts_total", "Restarts of the embedded mongod after it had exited."
)
EVENT_LOOP_LAG = Histogram(
    "registry_event_loop_lag_seconds",
    "Delay of a timer of the event loop, measured four times per second.",
)
LOG_LINES_DROPPED = Counter(
    "registry_log_lines_dropped_total",
    "Log lines that were not written because standard error was not read in time.",
)
WORKERS = Gauge("registry_workers", "Processes that serve requests.")

FAMILIES = tuple(member for member in globals().values() if isinstance(member, Family))
"""All families, in the order of their declarations."""


def take() -> MetricsSnapshot:
    """Return the samples of this process."""
    return {family.name: family.read() for family in FAMILIES}


def total(snapshots: Iterable[MetricsSnapshot]) -> MetricsSnapshot:
    """Return the sums of all samples, by family and labels."""
    sums: dict[str, Samples] = {}
    for snapshot in snapshots:
        for name, samples in snapshot.items():
            summed = sums.setdefault(name, {})
            for values, sample in samples.items():
                before = summed.get(values, [0.0] * len(sample))
                summed[values] = [a + b for a, b in zip(before, sample, strict=True)]
    return sums


def without_gauges(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    """Return what remains of the snapshot of a process after the process has ended."""
    gauges = {family.name for family in FAMILIES if isinstance(family, Gauge)}
    return {name: samples for name, samples in snapshot.items() if name not in gauges}
