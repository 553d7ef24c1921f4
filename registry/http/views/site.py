"""Views of what is not a resource: the root, health checks, and paths with a slash at their end."""

import asyncio
from collections.abc import Generator, Iterable

from aiohttp import hdrs, web

from registry.access.principal import Action, Principal, sufficient_scopes
from registry.http.access_control import PRINCIPAL
from registry.http.addresses import (
    CHANGES_PATH,
    LIVE_PATH,
    OPERATIONS_PATH,
    READY_PATH,
    ROOT_PATH,
    UI_PATH,
    without_trailing_slash,
)
from registry.http.app_keys import ADDRESSES, GRAPH, REPOSITORY
from registry.http.compression import PAGE
from registry.http.responses import DocumentResponse
from registry.jsonapi.authorization import Requirement, readable_with
from registry.jsonapi.content_negotiation import HTML, check_accept, prefers
from registry.jsonapi.documents import encode_meta, path_of
from registry.jsonapi.query import reject_parameters
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.protocol import MEDIA_TYPE

_STOPPING = web.AppKey("stopping", asyncio.Event)


def mount(app: web.Application, paths: Iterable[str]) -> None:
    """Serve the root and the health checks, and redirect from `paths` with a slash added."""
    app[_STOPPING] = asyncio.Event()
    app.on_shutdown.append(_stop)
    app.add_routes(
        [
            *(web.view(f"{path}/", TrailingSlashView) for path in paths),
            web.view(ROOT_PATH, EntryPointView),
            web.view(LIVE_PATH, LiveView),
            web.view(READY_PATH, ReadyView),
        ]
    )


async def allow_reading(_: web.Request) -> web.Response:
    """Respond to OPTIONS with the methods of a path that can only be read."""
    return web.Response(status=204, headers={hdrs.ALLOW: "GET, HEAD, OPTIONS"})


class ReadOnlyView(web.View):
    """A view that supports GET and HEAD."""

    async def options(self) -> web.Response:
        """Respond with the methods of this path in `Allow` (RFC 9110, 9.3.7)."""
        return await allow_reading(self.request)


class EntryPointView(ReadOnlyView):
    """Shows browsers the page for people, and tells other clients the URLs of the collections.

    The OpenAPI document, which needs no token either, has the same paths.
    """

    async def get(self) -> web.StreamResponse:
        """Respond with the page if `Accept` prefers HTML, else with a document of only `meta`.

        It has what the access token allows. Raises NotAcceptable or ApiErrors.
        """
        accept = self.request.headers.getall(hdrs.ACCEPT, ())
        if prefers(HTML, accept):
            return await self.request.app[PAGE].get(self.request)
        check_accept(accept)
        reject_parameters(self.request.query)
        app = self.request.app
        root = app[ADDRESSES].url(self.request)
        base = root.removesuffix(ROOT_PATH)
        meta = {
            "collections": {one.type: base + path_of(one) for one in app[GRAPH].values()},
            "operations": base + OPERATIONS_PATH,
            "changes": base + CHANGES_PATH,
            "openapi": f"{base}{UI_PATH}/openapi.json",
            "swagger_ui": f"{base}{UI_PATH}/",
            **_access(self.request.get(PRINCIPAL), app[GRAPH]),
        }
        body = encode_meta({"self": root}, meta)
        return DocumentResponse(200, body, {hdrs.CONTENT_TYPE: MEDIA_TYPE})

    head = get


class LiveView(ReadOnlyView):
    """Whether the event loop responds; if not, a restart of the service may help."""

    async def get(self) -> web.Response:
        """Respond with 200 and `{"status": "ok"}`."""
        return _health(None)

    head = get


class ReadyView(ReadOnlyView):
    """Whether requests can be served: the primary of the database responds within a second."""

    async def get(self) -> web.Response:
        """Respond with 200, or with 503 and the reason as `status`."""
        if self.request.app[_STOPPING].is_set():
            return _health("stopping")
        is_available = await self.request.app[REPOSITORY].is_available()
        return _health(None if is_available else "database unavailable")

    head = get


class TrailingSlashView(web.View):
    """Redirects to the path without the slash, with the same query and method."""

    @staticmethod
    def required_by(_: web.Request) -> tuple[Requirement, ...]:
        """Return no requirement: a redirect needs a token, but does not look up anything."""
        return ()

    def __await__(self) -> Generator[None, None, web.StreamResponse]:
        """Call the handler of all methods."""
        return self._redirect().__await__()

    async def _redirect(self) -> web.Response:
        """Respond with 308, upon which clients repeat the method and body (RFC 9110, 15.4.9)."""
        headers = {hdrs.LOCATION: without_trailing_slash(self.request)}
        return web.Response(status=308, headers=headers)


def _access(principal: Principal | None, graph: Graph) -> dict[str, dict[str, object]]:
    """Return what a principal may do: the types that it may read, and those that it may write."""
    if principal is None:
        return {}

    def may(action: Action, types: Iterable[ResourceType]) -> bool:
        return all(principal.has_one_of(sufficient_scopes(action, one)) for one in types)

    read = [one.type for one in graph.values() if may(Action.READ, readable_with(one, graph))]
    write = [one.type for one in graph.writable if may(Action.WRITE, [one])]
    return {"access": {"name": principal.id, "read": read, "write": write}}


def _health(failure: str | None) -> web.Response:
    """Return a response of a health check, in plain JSON for orchestrators."""
    headers = {hdrs.CACHE_CONTROL: "no-store"}
    status = 200 if failure is None else 503
    return web.json_response({"status": failure or "ok"}, status=status, headers=headers)


async def _stop(app: web.Application) -> None:
    app[_STOPPING].set()
