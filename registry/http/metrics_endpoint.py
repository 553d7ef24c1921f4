"""The metrics of the service for Prometheus, of all its processes together."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import accumulate
from typing import TypeAlias

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler
from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from registry.access.principal import Action
from registry.http.addresses import METRICS_PATH
from registry.http.app_keys import Limits
from registry.http.application import new_application
from registry.http.cors import Cors
from registry.http.views.site import read_only
from registry.jsonapi.authorization import Requirement
from registry.metrics import FAMILIES, Family, Gauge, Histogram, MetricsSnapshot, Samples, take
from registry.settings import Settings

Scrape: TypeAlias = Callable[[], Awaitable[MetricsSnapshot]]
"""Returns the snapshot of all processes of the service."""

_READ_ALL = Requirement(Action.READ, None)

_SCRAPE: web.AppKey[Scrape] = web.AppKey("scrape")


async def scrape_process() -> MetricsSnapshot:
    """Return the snapshot of this process, for a service that has no other."""
    return take()


def mount(app: web.Application, scrape: Scrape) -> None:
    """Serve the metrics on an application."""
    app[_SCRAPE] = scrape
    app.add_routes(read_only(METRICS_PATH, _show_metrics))


def metrics_app(settings: Settings, scrape: Scrape) -> web.Application:
    """Return an application that serves nothing else, for a port of its own."""
    app = new_application(settings, Limits(), Cors(()))
    mount(app, scrape)
    return app


async def _show_metrics(request: web.Request) -> web.StreamResponse:
    """Respond with the metrics, or those that the parameters `name[]` name.

    They are in the text formats of Prometheus and OpenMetrics, by `Accept`, and count the requests
    to each type, so they require the scope to read all.
    """
    registry = registry_of(await request.app[_SCRAPE]())
    return await make_aiohttp_handler(registry, disable_compression=True)(request)


_show_metrics.required_by = lambda _: (_READ_ALL,)  # type: ignore[attr-defined] # for access control


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
