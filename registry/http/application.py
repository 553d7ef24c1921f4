"""Applications: their middlewares, and the endpoints with their views and types."""

from collections.abc import Iterator
from functools import partial

from aiohttp import web

from registry.http.access_control import check_access
from registry.http.addresses import CHANGES_PATH, OPERATIONS_PATH, UI_PATH, Addresses
from registry.http.app_keys import ADDRESSES, DEADLINES, LIMITS, SETTINGS, Limits
from registry.http.cors import Cors, check_site
from registry.http.deadlines import Deadlines, limit_time
from registry.http.heads import check_head, defer_continue
from registry.http.responses import finish, finish_headers
from registry.http.views.all_types import AtomicView, FeedView
from registry.http.views.document_view import ENDPOINTS, Endpoint
from registry.http.views.relationship import LinkageView, MembersView, RelatedView
from registry.http.views.resource import CollectionView, DetailView
from registry.jsonapi.documents import path_of
from registry.jsonapi.query import QueryScope
from registry.model.graph import Graph
from registry.settings import Settings


def new_application(
    settings: Settings, limits: Limits, response_seconds: float = 60.0
) -> web.Application:
    """Return an application without paths. response_seconds: until a response has to begin."""
    addresses, cors = Addresses(settings), Cors(settings.cors_origin, pages=(UI_PATH,))
    deadlines = Deadlines(response_seconds)
    # In the order in which they apply.
    middlewares = [
        finish(limits, addresses),
        check_head(limits),
        check_site(addresses, cors),
        limit_time(deadlines),
        *([check_access] if settings.requires_tokens else []),
    ]
    app = web.Application(middlewares=middlewares)
    app[SETTINGS], app[LIMITS], app[ADDRESSES] = settings, limits, addresses
    app[DEADLINES] = deadlines
    app.on_response_prepare.append(partial(finish_headers, cors))
    return app


def endpoints(graph: Graph, page_size: int) -> list[Endpoint]:
    """Return the endpoints of all types. page_size: the default."""
    scopes = [QueryScope(resource, graph, page_size) for resource in graph.values()]
    of_types = [endpoint for scope in scopes for endpoint in _of_type(scope)]
    return [
        *of_types,
        Endpoint(OPERATIONS_PATH, AtomicView),
        Endpoint(CHANGES_PATH, FeedView),
    ]


def mount(app: web.Application, served: list[Endpoint]) -> None:
    """Serve the endpoints."""
    routes = [web.view(one.path, one.view, expect_handler=defer_continue) for one in served]
    app[ENDPOINTS] = dict(zip(app.add_routes(routes), served, strict=True))


def _of_type(scope: QueryScope) -> Iterator[Endpoint]:
    resource = scope.resource
    paths = path_of(resource), path_of(resource, "{id}")
    # The router tries the paths of a type in this order: the most frequent one comes first.
    yield Endpoint(paths[1], DetailView, scope)
    yield Endpoint(paths[0], CollectionView, scope)
    for name, relationship in resource.relationships.items():
        linkage = MembersView if relationship.to_many else LinkageView
        paths = path_of(resource, "{id}", "relationships", name), path_of(resource, "{id}", name)
        yield Endpoint(paths[0], linkage, scope, relationship)
        yield Endpoint(paths[1], RelatedView, scope, relationship)
