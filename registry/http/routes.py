"""The endpoints of resources and operations: their paths, views and types."""

from collections.abc import Iterator

from aiohttp import web

from registry.http.request_body import defer_continue
from registry.http.service_urls import CHANGES_PATH, OPERATIONS_PATH
from registry.http.views.atomic import AtomicView
from registry.http.views.collection import CollectionView
from registry.http.views.document_view import ENDPOINTS, Endpoint
from registry.http.views.feed import FeedView
from registry.http.views.relationship import LinkageView, MembersView, RelatedView
from registry.http.views.resource import DetailView
from registry.jsonapi.pagination import PageSizes
from registry.jsonapi.query import QueryScope
from registry.jsonapi.resource_objects import path_of
from registry.model.graph import Graph


def endpoints(graph: Graph, sizes: PageSizes) -> list[Endpoint]:
    """Return the endpoints of all types.

    sizes: the default and maximum size of pages and of included relationships.
    """
    scopes = [QueryScope(resource, graph, sizes) for resource in graph.values()]
    of_types = [endpoint for scope in scopes for endpoint in _of_type(scope)]
    return [
        *of_types,
        Endpoint(OPERATIONS_PATH, "operations", AtomicView),
        Endpoint(CHANGES_PATH, "changes", FeedView),
    ]


def mount(app: web.Application, served: list[Endpoint]) -> None:
    """Serve the endpoints."""
    routes = [
        web.view(one.path, one.view, name=one.name, expect_handler=defer_continue) for one in served
    ]
    app[ENDPOINTS] = dict(zip(app.add_routes(routes), served, strict=True))


def _of_type(scope: QueryScope) -> Iterator[Endpoint]:
    resource = scope.resource
    paths = path_of(resource), path_of(resource, "{id}")
    # The router tries the paths of a type in this order: the most frequent one comes first.
    yield Endpoint(paths[1], f"{resource.type}_detail", DetailView, scope)
    yield Endpoint(paths[0], f"{resource.type}_list", CollectionView, scope)
    for name, relationship in resource.relationships.items():
        linkage = MembersView if relationship.to_many else LinkageView
        paths = path_of(resource, "{id}", "relationships", name), path_of(resource, "{id}", name)
        yield Endpoint(paths[0], f"{resource.type}_{name}_linkage", linkage, scope, relationship)
        yield Endpoint(paths[1], f"{resource.type}_{name}", RelatedView, scope, relationship)
