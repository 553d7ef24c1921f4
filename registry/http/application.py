"""Applications: their middlewares, and the table of their routes."""

from asyncio import Event
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from aiohttp import web

from registry.access.authorization import readable_with
from registry.access.principal import Action
from registry.http.access_control import admit, check_access
from registry.http.addresses import (
    CHANGES_PATH,
    LIVE_PATH,
    METRICS_PATH,
    OPERATIONS_PATH,
    READY_PATH,
    ROOT_PATH,
    Addresses,
)
from registry.http.app_keys import (
    ADDRESSES,
    DEADLINES,
    LIMITS,
    SETTINGS,
    STOPPING,
    Deadlines,
    Limits,
)
from registry.http.checks import Cors, check_request, defer_continue
from registry.http.responses import finish, finish_head
from registry.http.routes import Cost, Needs, Route, TokenUse
from registry.http.views.all_types import AtomicView, FeedView
from registry.http.views.resources import CollectionView, DetailView, LinkageView, RelatedView
from registry.http.views.site import (
    EntryPointView,
    LivenessView,
    MetricsView,
    ReadinessView,
    SlashView,
)
from registry.jsonapi.query import QueryScope
from registry.jsonapi.resource_objects import path_of
from registry.model.graph import Graph
from registry.settings import Settings


def new_application(
    settings: Settings, limits: Limits, response_seconds: float = 60.0
) -> web.Application:
    """Return an application without paths. response_seconds: until a response has to begin."""
    addresses, cors = Addresses(settings), Cors(settings.cors_origin)
    deadlines, stopping = Deadlines(response_seconds), Event()
    # In the order in which they apply.
    middlewares = [
        finish(limits, addresses, deadlines),
        check_request(addresses, cors),
        *([check_access] if settings.requires_tokens else []),
        admit,
    ]
    app = web.Application(middlewares=middlewares)
    app[SETTINGS], app[LIMITS], app[ADDRESSES] = settings, limits, addresses
    app[DEADLINES], app[STOPPING] = deadlines, stopping
    app.on_response_prepare.append(partial(finish_head, cors, deadlines, stopping))
    app.on_shutdown.append(_mark_stopping)
    return app


async def _mark_stopping(app: web.Application) -> None:
    app[STOPPING].set()


def mount(app: web.Application, routes: Iterable[Route]) -> None:
    """Serve the paths of routes."""
    app.add_routes(
        web.view(route.path, route.view.of(route), expect_handler=defer_continue)
        for route in routes
    )


_READ, _WRITE = Needs(Action.READ), Needs(Action.WRITE, Cost.BODY)
_FOLLOW = Needs(Action.READ, Cost.FOLLOWER)

_ONLY_GET = {"GET": _READ}
_DETAIL = {"GET": _READ, "PATCH": _WRITE, "DELETE": Needs(Action.WRITE)}
_COLLECTION = {"GET": _READ, "POST": _WRITE}
_TO_ONE = {"GET": _READ, "PATCH": _WRITE}
_TO_MANY = {"GET": _READ, "PATCH": _WRITE, "POST": _WRITE, "DELETE": _WRITE}


def routes_of_api(graph: Graph, page_size: int) -> list[Route]:
    """Return the routes of all types. page_size: the default."""
    scopes = [QueryScope(resource_type, graph, page_size) for resource_type in graph.values()]
    return [
        *(route for scope in scopes for route in _routes_of_type(scope)),
        Route(OPERATIONS_PATH, AtomicView, {"POST": _WRITE}),
        Route(CHANGES_PATH, FeedView, {"GET": _FOLLOW}),
    ]


def _routes_of_type(scope: QueryScope) -> Iterator[Route]:
    resource_type, graph = scope.resource, scope.graph
    types = readable_with(resource_type, graph)
    is_fixed = resource_type.read_only
    # The router tries the paths of a type in this order: the most frequent one comes first.
    path = path_of(resource_type, "{id}")
    yield Route(path, DetailView, _ONLY_GET if is_fixed else _DETAIL, types, scope=scope)
    path = path_of(resource_type)
    yield Route(path, CollectionView, _ONLY_GET if is_fixed else _COLLECTION, types, scope=scope)
    for name, link in resource_type.relationships.items():
        both = *types, *readable_with(graph[link.target], graph)
        needs = _ONLY_GET if link.read_only else _TO_MANY if link.to_many else _TO_ONE
        path = path_of(resource_type, "{id}", "relationships", name)
        yield Route(path, LinkageView, needs, both, scope=scope, relationship=link)
        path = path_of(resource_type, "{id}", name)
        yield Route(path, RelatedView, _ONLY_GET, both, scope=scope, relationship=link)


def routes_of_site(paths: Iterable[str]) -> list[Route]:
    """Return the routes of what is not a resource. paths: of the API."""
    return [
        Route(ROOT_PATH, EntryPointView, _ONLY_GET, token=TokenUse.ACCEPTED),
        Route(LIVE_PATH, LivenessView, _ONLY_GET, token=TokenUse.IGNORED),
        Route(READY_PATH, ReadinessView, _ONLY_GET, token=TokenUse.IGNORED),
        *(Route(f"{path}/", SlashView, dict.fromkeys(SlashView.METHODS, _READ)) for path in paths),
    ]


def metrics_route() -> Route:
    """Return the route of the metrics, which count the requests to each type."""
    return Route(METRICS_PATH, MetricsView, _ONLY_GET, [None])


def metrics_app(settings: Settings) -> web.Application:
    """Return an application that serves nothing but metrics, for a port of its own."""
    app = new_application(replace(settings, auth="off", cors_origin=()), Limits())
    mount(app, [metrics_route()])
    return app
