"""Snapshots: the samples of a process at one moment, their sums, and Prometheus' view of them."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TypeAlias

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from registry.metrics.families import FAMILIES, Family, Gauge, Histogram, Samples

MetricsSnapshot: TypeAlias = Mapping[str, Samples]
"""Samples by the name of their family."""


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


def registry_of(snapshot: MetricsSnapshot) -> CollectorRegistry:
    """Return a registry of prometheus-client whose only metrics are those of a snapshot."""
    registry = CollectorRegistry()
    registry.register(_SnapshotCollector(snapshot))
    return registry


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            yield _metric(family, self._snapshot.get(family.name, {}))


def _metric(family: Family, samples: Samples) -> Metric:
    name, text, labels = family.name, family.help_text, family.labels
    if isinstance(family, Histogram):
        histogram = HistogramMetricFamily(name, text, labels=labels)
        bounds = [*map(str, family.bounds), "+Inf"]
        for values, (*counts, sum_of_values) in samples.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            histogram.add_metric(values, buckets, sum_of_values)
        return histogram
    kind = GaugeMetricFamily if isinstance(family, Gauge) else CounterMetricFamily
    metric = kind(name, text, labels=labels)
    for values, (value,) in samples.items():
        metric.add_metric(values, value)
    return metric
