"""The exposition formats of Prometheus, by prometheus-client."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from registry.metrics.families import FAMILIES, Family, Gauge, Histogram, Samples
from registry.metrics.metrics_snapshot import MetricsSnapshot


class SnapshotCollector(Collector):
    """Passes a snapshot to prometheus-client."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """Yield each family with its samples."""
        for family in FAMILIES:
            yield _metric(family, self._snapshot.get(family.name, {}))


def registry_of(snapshot: MetricsSnapshot) -> CollectorRegistry:
    """Return a registry whose only metrics are those of a snapshot."""
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(snapshot))
    return registry


def _metric(family: Family, samples: Samples) -> Metric:
    name, text, labels = family.name, family.help_text, family.labels
    if isinstance(family, Histogram):
        histogram = HistogramMetricFamily(name, text, labels=labels)
        bounds = [*map(str, family.bounds), "+Inf"]
        for values, (*counts, total) in samples.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            histogram.add_metric(values, buckets, total)
        return histogram
    kind = GaugeMetricFamily if isinstance(family, Gauge) else CounterMetricFamily
    metric = kind(name, text, labels=labels)
    for values, (value,) in samples.items():
        metric.add_metric(values, value)
    return metric
