"""The OpenAPI 3.0.0 document of a service, derived from the graph and the settings."""

from collections.abc import Sequence
from dataclasses import replace

import registry
from registry.access.principal import Action
from registry.http.responses import REQUEST_ID
from registry.http.routes import endpoints
from registry.http.service_urls import LIVE_PATH, METRICS_PATH, OPERATIONS_PATH, READY_PATH
from registry.jsonapi.authorization import Requirement
from registry.jsonapi.content_negotiation import MEDIA_TYPE
from registry.jsonapi.query import QueryScope
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.openapi import parameters
from registry.openapi.operation_schemas import operation_schemas
from registry.openapi.paths import HEADERS, SECURITY_SCHEME, Paths
from registry.openapi.schema_objects import Json, code, title
from registry.openapi.schemas import schemas
from registry.settings import Settings

_CONVENTIONS = f"""\
Bodies are `{MEDIA_TYPE}`; `{OPERATIONS_PATH}` adds the extension Atomic Operations. Paths with GET
support HEAD too. `Allow` in the response to OPTIONS lists the methods of a path; other methods get
405, unknown paths 404, unknown query parameters 400. Every error has an error document.
`{REQUEST_ID}` in a response identifies it: clients may send one of 1 to 128 visible ASCII
characters, or a `traceparent` (W3C Trace Context). Responses of 1,000 bytes or more are compressed
with gzip if `Accept-Encoding` allows it.

`/` redirects browsers here, and lists the URLs of the collections in `meta` for other clients. A
trailing slash is redirected (308). For operators: `{LIVE_PATH}`, `{READY_PATH}` and, unless it has
a port of its own, `{METRICS_PATH}`."""

_SECURITY_SCHEMES: Json = {
    SECURITY_SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token with the scopes that each operation names; `/operations` "
        "requires those of the types that it changes. `read` and `write` suffice for all types, "
        "and writing includes reading. `include`, `filter` and `sort` also require the scope to "
        "read each type they name; changes of relationships, the scope to write the type of the "
        "related resources.",
    }
}


def describe(graph: Graph, settings: Settings) -> Json:
    """Return the OpenAPI document of a service with these types and settings."""
    scopes = [QueryScope(resource, graph, settings.sizes) for resource in graph.values()]
    paths = Paths(_required_scopes(graph, settings) if settings.requires_tokens else {})
    for scope in scopes:
        paths.add_type(scope)
    paths.add_operations(graph)
    return {
        "openapi": "3.0.0",
        "info": {
            "title": "Person and Computer Registry",
            "version": registry.__version__,
            "description": f"{registry.__doc__}\n\n{_CONVENTIONS}",
        },
        "servers": [{"url": settings.public_url or "/"}],
        "tags": [
            *map(_tag, graph.values()),
            {"name": "Operations", "description": "Several changes in one request, all or none."},
        ],
        "paths": paths.items,
        "components": {
            "schemas": schemas(graph) | operation_schemas(graph),
            "parameters": _parameters(scopes),
            "responses": paths.responses,
            "headers": HEADERS,
            **({"securitySchemes": _SECURITY_SCHEMES} if settings.requires_tokens else {}),
        },
    }


def _tag(resource: ResourceType) -> Json:
    relationships = ", ".join(
        f"`{name}` (to-{'many' if relationship.to_many else 'one'}, `{relationship.target}`)"
        for name, relationship in resource.relationships.items()
    )
    attributes = code(resource.attributes)
    description = f"Attributes: {attributes}. Relationships: {relationships or 'none'}."
    return {"name": title(resource), "description": description}


def _required_scopes(graph: Graph, settings: Settings) -> dict[tuple[str, str], list[str]]:
    """Return the scopes that the endpoints require, by path and method."""
    required = {}
    # Those of atomic operations depend on the document.
    by_document = [Requirement(Action.WRITE, resource) for resource in graph.values()]
    for endpoint in endpoints(graph, settings.sizes):
        for method in ("get", "post", "patch", "delete"):
            requirements = endpoint.requirements(method.upper()) or by_document
            scopes = dict.fromkeys(one.scope for one in requirements)
            required[endpoint.path, method] = list(scopes)
    return required


def _parameters(scopes: Sequence[QueryScope]) -> Json:
    """Return the component parameters."""
    components = (
        parameters.ID | parameters.ID_TO_WRITE | parameters.PRECONDITIONS | parameters.IDEMPOTENCY
    )
    for scope in scopes:
        components |= parameters.query_parameters(replace(scope, many=True))
        for relationship in scope.resource.relationships.values():
            linkage = replace(scope, linkage=(scope.resource, relationship))
            components |= parameters.query_parameters(linkage)
    return components
