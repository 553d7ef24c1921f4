"""The routes of the service: its paths and their views."""

from collections.abc import Iterator
from typing import Any

from aiohttp import web

from registry.http.request_body import defer_continue
from registry.http.views.collection import CollectionView
from registry.http.views.document import DocumentView
from registry.http.views.operations import OperationsView
from registry.http.views.relationship import LinkageView, MembersView, RelatedView
from registry.http.views.resource import DetailView
from registry.jsonapi.pagination import PageSizes
from registry.jsonapi.query import QueryScope
from registry.jsonapi.resource_objects import (
    collection_path,
    related_path,
    relationship_path,
    resource_path,
)
from registry.model.graph import Graph

OPERATIONS_PATH = "/operations"
UI_PATH = "/api/swagger"
"""The prefix of Swagger UI and the OpenAPI document (section 1 of the service description)."""


def routes(graph: Graph, sizes: PageSizes) -> list[web.RouteDef]:
    """Return the routes of all types (section 4.1 of the service description).

    sizes: the default and maximum size of pages and of included relationships.
    """
    scopes = [QueryScope(resource, graph, sizes) for resource in graph.values()]
    of_types = [route for scope in scopes for route in _of_type(scope)]
    return [*of_types, _route(OperationsView, OPERATIONS_PATH, "operations", graph=graph)]


def _of_type(scope: QueryScope) -> Iterator[web.RouteDef]:
    resource = scope.resource
    context: dict[str, Any] = {"graph": scope.graph, "scope": scope, "resource": resource}
    context["types"] = (resource,)
    paths = collection_path(resource), resource_path(resource, "{id}")
    # The router tries the paths of a type in this order: the most frequent one comes first.
    yield _route(DetailView, paths[1], f"{resource.type}_detail", **context)
    yield _route(CollectionView, paths[0], f"{resource.type}_list", **context)
    for name, relationship in resource.relationships.items():
        types = (resource, scope.graph[relationship.target])
        context |= {"relationship": relationship, "types": types}
        linkage = MembersView if relationship.to_many else LinkageView
        paths = relationship_path(resource, "{id}", name), related_path(resource, "{id}", name)
        yield _route(linkage, paths[0], f"{resource.type}_{name}_linkage", **context)
        yield _route(RelatedView, paths[1], f"{resource.type}_{name}", **context)


def _route(view: type[DocumentView], path: str, name: str, **context: Any) -> web.RouteDef:
    """Return a route to a subclass of the view with the class attributes in `context`."""
    subclass = type(view.__name__, (view,), context)
    return web.view(path, subclass, name=name, expect_handler=defer_continue)
