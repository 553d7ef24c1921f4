"""Applications: the headers of all responses, and the endpoints with their views and types."""

from collections.abc import Iterator

from aiohttp import hdrs, web

from registry.http.addresses import CHANGES_PATH, OPERATIONS_PATH, Addresses
from registry.http.app_keys import ADDRESSES, CORS, LIMITS, SETTINGS, Limits
from registry.http.request_body import defer_continue
from registry.http.responses import Cors, common_headers, request_id
from registry.http.views.all_types import AtomicView, FeedView
from registry.http.views.document_view import ENDPOINTS, Endpoint
from registry.http.views.relationship import LinkageView, MembersView, RelatedView
from registry.http.views.resource import CollectionView, DetailView
from registry.jsonapi.documents import path_of
from registry.jsonapi.query import QueryScope
from registry.model.graph import Graph
from registry.settings import Settings


def new_application(settings: Settings, limits: Limits, cors: Cors) -> web.Application:
    """Return an application without routes, with all that its server needs."""
    app = web.Application()
    app[SETTINGS], app[LIMITS], app[CORS] = settings, limits, cors
    app[ADDRESSES] = Addresses(settings)
    app.on_response_prepare.append(_add_headers)
    return app


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers that every response has, other than DocumentResponse, which has them."""
    response.headers.pop(hdrs.SERVER, None)  # it shows the version of aiohttp
    for name, value in common_headers(request_id(request)).items():
        response.headers.setdefault(name, value)
    cors = request.config_dict[CORS]
    if cors.is_on:
        cors.add_headers(request, response.headers)


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
