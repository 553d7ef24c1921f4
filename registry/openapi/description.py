"""The OpenAPI 3.0.0 document of a service, derived from the graph, settings and limits."""

from dataclasses import replace
from typing import Any

import registry
from registry.http.limits import Limits
from registry.http.responses import REQUEST_ID
from registry.http.routes import endpoints
from registry.http.service_urls import LIVE_PATH, METRICS_PATH, OPERATIONS_PATH, READY_PATH
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.query import QueryScope
from registry.jsonapi.resource_objects import (
    collection_path,
    related_path,
    relationship_path,
    resource_path,
)
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.openapi.atomic_operations import TAG, operations_item, operations_schemas
from registry.openapi.error_examples import ErrorExamples
from registry.openapi.operations import HEADERS
from registry.openapi.parameters import (
    ID,
    ID_TO_WRITE,
    IDEMPOTENCY,
    PRECONDITIONS,
    query_parameters,
)
from registry.openapi.relationships import linkage_item, related_item
from registry.openapi.resources import collection_item, detail_item
from registry.openapi.schema_objects import Json, reference, title
from registry.openapi.schemas import schemas
from registry.openapi.security import SCHEMES, add_security
from registry.settings import Settings

_CONVENTIONS = f"""\
The media type of all request and response bodies is `{MEDIA_TYPE}`, with the extension Atomic
Operations at `{OPERATIONS_PATH}`. Every path that supports GET supports HEAD. The response to
OPTIONS lists the methods of a path in `Allow`, and so does the 405 response to any other method.
The response to an unknown path is 404, to an unknown query parameter 400. Every error response has
an error document. Every response has an id in `{REQUEST_ID}`: the one of the request, if it
has an id of 1 to 128 visible ASCII characters there or a valid `traceparent` (W3C Trace Context).
Responses of 1,000 bytes or more may be compressed with gzip if `Accept-Encoding` allows it.

`/` leads here: browsers are redirected to Swagger UI, and other clients get a document whose `meta`
has the URLs of the collections. A path of an operation with a slash at its end is redirected to the
one without it (308).

For operators, and without documents of JSON:API: `{LIVE_PATH}` and `{READY_PATH}` (200, or 503 and
the reason), and `{METRICS_PATH}` for Prometheus unless it has a port of its own."""


def describe(graph: Graph, settings: Settings, limits: Limits) -> dict[str, Any]:
    """Return the OpenAPI document of a service with these types, settings and limits."""
    errors = ErrorExamples(settings, limits)
    scopes = [QueryScope(resource, graph, settings.sizes) for resource in graph.values()]
    paths = {path: item for scope in scopes for path, item in _items(scope, errors).items()}
    paths[OPERATIONS_PATH] = operations_item(graph, errors)
    if settings.requires_tokens:
        add_security(paths, endpoints(graph, settings.sizes), graph, errors)
    return {
        "openapi": "3.0.0",
        "info": {
            "title": "Person and Computer Registry",
            "version": registry.__version__,
            "description": f"{registry.__doc__}\n\n{_CONVENTIONS}",
        },
        "servers": [{"url": settings.public_url or "/"}],
        "tags": [*(_tag(resource) for resource in graph.values()), TAG],
        "paths": paths,
        "components": {
            "schemas": schemas(graph) | operations_schemas(graph),
            "parameters": _parameters(scopes),
            "responses": _extract_error_responses(paths),
            "headers": HEADERS,
            **({"securitySchemes": SCHEMES} if settings.requires_tokens else {}),
        },
    }


def _tag(resource: ResourceType) -> Json:
    attributes = ", ".join(f"`{name}`" for name in resource.attributes)
    relationships = ", ".join(
        f"`{name}` (to-{'many' if relationship.to_many else 'one'}, `{relationship.target}`)"
        for name, relationship in resource.relationships.items()
    )
    return {
        "name": title(resource),
        "description": f"Attributes: {attributes}. Relationships: {relationships or 'none'}.",
    }


def _items(scope: QueryScope, errors: ErrorExamples) -> Json:
    """Return the Path Item Objects of a type, by path as in `http/routes.py`."""
    resource = scope.resource
    items = {
        collection_path(resource): collection_item(scope, errors),
        resource_path(resource, "{id}"): detail_item(scope, errors),
    }
    for name, relationship in resource.relationships.items():
        linkage_path = relationship_path(resource, "{id}", name)
        items[linkage_path] = linkage_item(scope, relationship, errors)
        items[related_path(resource, "{id}", name)] = related_item(scope, relationship, errors)
    return items


def _parameters(scopes: list[QueryScope]) -> Json:
    """Return the component parameters."""
    components = ID | ID_TO_WRITE | PRECONDITIONS | IDEMPOTENCY
    for scope in scopes:
        components |= query_parameters(replace(scope, many=True))
        for relationship in scope.resource.relationships.values():
            components |= query_parameters(replace(scope, linkage=(scope.resource, relationship)))
    return components


def _extract_error_responses(paths: Json) -> Json:
    """Move the error responses of all operations to components, equal ones to the same.

    A component is named after the first operation that has it.
    """
    components: Json = {}
    for operation in (method for item in paths.values() for method in item.values()):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                equal = (name for name, component in components.items() if component == response)
                name = next(equal, f"{operation['operationId']}_{status}")
                components[name] = response
                operation["responses"][status] = reference("responses", name)
    return components
