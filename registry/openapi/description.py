"""The graph -> OpenAPI 3.0.0: what there is, what it takes and what it answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import registry
from registry.http.routes import OPERATIONS_PATH
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.links import collection_path, related_path, relationship_path, resource_path
from registry.jsonapi.query import Scope
from registry.model.graph import Graph
from registry.model.resource import Resource
from registry.openapi.atomic_operations import TAG, operations_item, operations_schemas
from registry.openapi.filters import filter_schemas
from registry.openapi.operations import HEADERS
from registry.openapi.parameters import ID, IF_MATCH, IF_NONE_MATCH, query_parameters
from registry.openapi.relationships import linkage_item, related_item
from registry.openapi.resources import collection_item, detail_item
from registry.openapi.schemas import OPENAPI, Json, reference, schemas, title
from registry.settings import Settings

_CONVENTIONS = f"""\
Every body, sent or answered, is `{MEDIA_TYPE}`, with the extension Atomic Operations at
`{OPERATIONS_PATH}`. What can be read with GET can be asked for with HEAD; OPTIONS answers with the
methods of a path in `Allow`, and so does the 405 that any other method gets. An unknown path is
answered 404, an unknown query parameter 400. Whatever goes wrong is answered with an error
document."""


def describe(graph: Graph, settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI document of a service with these types and settings."""
    scopes = [Scope(resource, graph, settings.sizes) for resource in graph.values()]
    paths = {path: item for scope in scopes for path, item in _items(scope).items()}
    paths[OPERATIONS_PATH] = operations_item(graph, settings.most_operations)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "Person and Computer Registry",
            "version": registry.__version__,
            "description": f"{registry.__doc__}\n\n{_CONVENTIONS}",
        },
        "servers": [{"url": settings.public_url or "/"}],
        "tags": [*(_tag(resource) for resource in graph.values()), TAG],
        "paths": paths,
        "components": {
            "schemas": schemas(graph)
            | filter_schemas(graph)
            | operations_schemas(graph, settings.most_operations),
            "parameters": _parameters(scopes),
            "responses": _share_refusals(paths),
            "headers": HEADERS,
        },
    }


def _tag(resource: Resource) -> Json:
    attributes = ", ".join(f"`{name}`" for name in resource.attributes)
    relationships = ", ".join(
        f"`{name}` ({'many' if one.to_many else 'one'} `{one.target}`)"
        for name, one in resource.relationships.items()
    )
    return {
        "name": title(resource),
        "description": f"Attributes: {attributes}. Relationships: {relationships or 'none'}.",
    }


def _items(scope: Scope) -> Json:
    """Return the paths of a type, as `views.routes` has them."""
    resource = scope.resource
    found = {
        collection_path(resource): collection_item(scope),
        resource_path(resource, "{id}"): detail_item(scope),
    }
    for name, relationship in resource.relationships.items():
        found[relationship_path(resource, "{id}", name)] = linkage_item(scope, relationship)
        found[related_path(resource, "{id}", name)] = related_item(scope, relationship)
    return found


def _parameters(scopes: list[Scope]) -> Json:
    """Return the component parameters."""
    found = ID | IF_MATCH | IF_NONE_MATCH
    for scope in scopes:
        found |= query_parameters(replace(scope, many=True))
        for relationship in scope.resource.relationships.values():
            found |= query_parameters(replace(scope, linkage=(scope.resource, relationship)))
    return found


def _share_refusals(paths: Json) -> Json:
    """Return the refusals as component responses, each once, and put references in their place.

    A component is named by the first operation that has it.
    """
    found: Json = {}
    operations = (one for item in paths.values() for one in item.values() if "responses" in one)
    for operation in operations:
        responses = operation["responses"]
        for status in [status for status in responses if int(status) >= 400]:
            refusal = responses[status]
            known = (name for name, same in found.items() if same == refusal)
            name = next(known, f"{operation['operationId']}_{status}")
            found[name] = refusal
            responses[status] = reference("responses", name)
    return found
