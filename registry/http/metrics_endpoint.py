"""The metrics of the service for Prometheus, of all its processes together."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import hdrs, web
from prometheus_client.aiohttp import make_aiohttp_handler

from registry.access.principal import Action
from registry.http.app_keys import new_application
from registry.http.cors import Cors
from registry.http.limits import Limits
from registry.http.service_urls import METRICS_PATH
from registry.http.views.site import ReadOnlyView
from registry.jsonapi.authorization import Requirement
from registry.metrics import metrics_snapshot
from registry.metrics.metrics_snapshot import MetricsSnapshot, registry_of
from registry.settings import Settings

Scrape: TypeAlias = Callable[[], Awaitable[MetricsSnapshot]]
"""Returns the snapshot of all processes of the service."""

_READ_ALL = Requirement(Action.READ, None)

_SCRAPE: web.AppKey[Scrape] = web.AppKey("scrape")


async def scrape_process() -> MetricsSnapshot:
    """Return the snapshot of this process, for a service that has no other."""
    return metrics_snapshot.take()


def mount(app: web.Application, scrape: Scrape) -> None:
    """Serve the metrics on an application."""
    app[_SCRAPE] = scrape
    app.add_routes([web.view(METRICS_PATH, MetricsView)])


def metrics_app(settings: Settings, scrape: Scrape) -> web.Application:
    """Return an application that serves nothing else, for a port of its own."""
    app = new_application(settings, Limits(), Cors(()))
    mount(app, scrape)
    return app


class MetricsView(ReadOnlyView):
    """The metrics in the text formats of Prometheus and OpenMetrics, by `Accept`.

    On the port of the API, they require the scope to read all types, as they count the requests to
    each.
    """

    @staticmethod
    def required_by(request: web.Request) -> tuple[Requirement, ...]:
        """Return what a request requires; nothing if 405 follows."""
        return (_READ_ALL,) if request.method in {hdrs.METH_GET, hdrs.METH_HEAD} else ()

    async def get(self) -> web.StreamResponse:
        """Respond with the metrics, or those that the parameters `name[]` name."""
        snapshot = await self.request.app[_SCRAPE]()
        return await make_aiohttp_handler(registry_of(snapshot), disable_compression=True)(
            self.request
        )

    head = get
