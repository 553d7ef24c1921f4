"""Views of what is not a resource: the root, health checks, metrics, and slashes at the end."""

from collections.abc import Iterable
from copy import copy
from typing import Any, ClassVar

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from prometheus_client.aiohttp import make_aiohttp_handler

from registry.access.authorization import readable_with
from registry.access.principal import Action, Principal, sufficient_scopes
from registry.http.access_control import PRINCIPAL
from registry.http.addresses import (
    CHANGES_PATH,
    OPERATIONS_PATH,
    ROOT_PATH,
    UI_PATH,
    encoded_target,
    query_of,
)
from registry.http.app_keys import ADDRESSES, GRAPH, REPOSITORY, SETTINGS, STOPPING
from registry.http.routes import BaseView
from registry.jsonapi.content_negotiation import HTML, check_accept, prefers
from registry.jsonapi.documents import encode_meta
from registry.jsonapi.query_parser import reject_parameters
from registry.jsonapi.resource_objects import path_of
from registry.jsonapi.type_descriptions import describe_operators, describe_types
from registry.metrics import registry_of_service
from registry.model.resource_type import ResourceType
from registry.protocol import MEDIA_TYPE

PAGE: web.AppKey[Handler] = web.AppKey("page")
"""Responds with the page for people, which the root shows to browsers."""


def read_only(path: str, handler: Handler) -> list[web.RouteDef]:
    """Return the routes of a path that supports GET, HEAD and OPTIONS."""
    return [web.get(path, handler), web.options(path, _allow_reading)]


async def _allow_reading(_: web.Request) -> web.Response:
    """Respond to OPTIONS with the methods of a path that can only be read."""
    return web.Response(status=204, headers={hdrs.ALLOW: "GET, HEAD, OPTIONS"})


class EntryPointView(BaseView):
    """The root."""

    async def get(self) -> web.StreamResponse:
        """Respond with the page if `Accept` prefers HTML, else with a document of only `meta`.

        It describes the types, and has what the access token allows. Raises NotAcceptable or
        RequestError.
        """
        request, app = self.request, self.request.app
        accept = request.headers.getall(hdrs.ACCEPT, ())
        if prefers(HTML, accept):
            return await app[PAGE](request)
        check_accept(accept)
        reject_parameters(query_of(request))
        root = app[ADDRESSES].url(request)
        base = root.removesuffix(ROOT_PATH)
        meta = {
            "collections": {
                resource.type: base + path_of(resource) for resource in app[GRAPH].values()
            },
            "operations": base + OPERATIONS_PATH,
            "changes": base + CHANGES_PATH,
            "openapi": f"{base}{UI_PATH}/openapi.json",
            "swagger_ui": f"{base}{UI_PATH}/",
            "types": describe_types(app[GRAPH]),
            "operators": describe_operators(),
            **_access(request.get(PRINCIPAL), app),
        }
        return web.Response(body=encode_meta({"self": root}, meta), content_type=MEDIA_TYPE)


class LivenessView(BaseView):
    """The health check of the process."""

    async def get(self) -> web.StreamResponse:
        """Respond with 200, as the event loop runs. Without a response, a restart may help."""
        return _health(None)


class ReadinessView(BaseView):
    """The health check of the service."""

    async def get(self) -> web.StreamResponse:
        """Respond with 200 if the primary of the database does within a second, else with 503."""
        app = self.request.app
        if app[STOPPING].is_set():
            return _health("stopping")
        is_available = await app[REPOSITORY].is_available()
        return _health(None if is_available else "database unavailable")


class SlashView(BaseView):
    """A path with a slash at its end that should not be there."""

    METHODS: ClassVar = sorted(hdrs.METH_ALL - {hdrs.METH_CONNECT})

    async def get(self) -> web.StreamResponse:
        """Respond with 308, so that clients repeat the method and body (RFC 9110, 15.4.9).

        The URL is relative: it leads to no other host, and a reverse proxy may add to the path.
        """
        path, mark, query = encoded_target(self.request).partition("?")
        location = f"../{path.removesuffix('/').rpartition('/')[2]}{mark}{query}"
        return web.Response(status=308, headers={hdrs.LOCATION: location})

    head = post = put = patch = delete = options = trace = get  # type: ignore[assignment] # 308


def _access(principal: Principal | None, app: web.Application) -> dict[str, Any]:
    """Return what a principal may do: the types it may read, and the types it may write.

    It is null without the token that is required, and absent where none is.
    """
    if principal is None:
        return {"access": None} if app[SETTINGS].requires_tokens else {}
    graph = app[GRAPH]

    def may(action: Action, types: Iterable[ResourceType]) -> bool:
        return all(principal.has_one_of(sufficient_scopes(action, resource)) for resource in types)

    read = [
        resource.type
        for resource in graph.values()
        if may(Action.READ, readable_with(resource, graph))
    ]
    write = [resource.type for resource in graph.writable if may(Action.WRITE, [resource])]
    return {"access": {"name": principal.id, "read": read, "write": write}}


def _health(failure: str | None) -> web.Response:
    """Return a response of a health check, in plain JSON for orchestrators."""
    headers = {hdrs.CACHE_CONTROL: "no-store"}
    status = 200 if failure is None else 503
    return web.json_response({"status": failure or "ok"}, status=status, headers=headers)


class MetricsView(BaseView):
    """The metrics, in the text formats of Prometheus and OpenMetrics, by `Accept`."""

    async def get(self) -> web.StreamResponse:
        """Respond with all metrics, or with those named by the parameters `name[]`."""
        # A copy of the URL, as for `query_of`.
        copied = self.request.clone(rel_url=copy(self.request.rel_url))
        return await make_aiohttp_handler(registry_of_service(), disable_compression=True)(copied)
