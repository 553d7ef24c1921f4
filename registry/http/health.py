"""Health checks for orchestrators and load balancers: application/json, and no token required."""

import asyncio

from aiohttp import hdrs, web

from registry.http.app_keys import REPOSITORY
from registry.http.views.read_only import ReadOnlyView

LIVE_PATH = "/health/live"
READY_PATH = "/health/ready"
HEALTH_PATHS = frozenset({LIVE_PATH, READY_PATH})

_STOPPING = web.AppKey("stopping", asyncio.Event)


def mount(app: web.Application) -> None:
    """Serve the health checks."""
    app[_STOPPING] = asyncio.Event()
    app.on_shutdown.append(_stop)
    app.add_routes([web.view(LIVE_PATH, LiveView), web.view(READY_PATH, ReadyView)])


class LiveView(ReadOnlyView):
    """Whether the event loop responds; if not, a restart of the service may help."""

    async def get(self) -> web.Response:
        """Respond with 200 and `{"status": "ok"}`."""
        return _response(None)

    head = get


class ReadyView(LiveView):
    """Whether requests can be served: the primary of the database responds within a second."""

    async def get(self) -> web.Response:
        """Respond with 200, or with 503 and the reason as `status`."""
        if self.request.app[_STOPPING].is_set():
            return _response("stopping")
        is_available = await self.request.app[REPOSITORY].is_available()
        return _response(None if is_available else "database unavailable")

    head = get


def _response(failure: str | None) -> web.Response:
    headers = {hdrs.CACHE_CONTROL: "no-store"}
    status = 200 if failure is None else 503
    return web.json_response({"status": failure or "ok"}, status=status, headers=headers)


async def _stop(app: web.Application) -> None:
    app[_STOPPING].set()
