"""The OpenAPI 3.0.0 document of a service, derived from the graph and the settings."""

import registry
from registry.http.addresses import LIVE_PATH, METRICS_PATH, OPERATIONS_PATH, READY_PATH
from registry.jsonapi.parameter_schemas import MAX_LISTED
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.openapi.parameters import ParameterComponents
from registry.openapi.paths import HEADERS, SECURITY_SCHEME, describe_paths, error_responses
from registry.openapi.schemas import Json, code, require_distinct, schemas, title
from registry.protocol import MEDIA_TYPE, REQUEST_ID
from registry.settings import Settings

_CONVENTIONS = f"""\
Bodies are `{MEDIA_TYPE}`; `{OPERATIONS_PATH}` adds the extension Atomic Operations. Paths with GET
support HEAD too. `Allow` in the response to OPTIONS lists the methods of a path; other methods get
405, unknown paths 404, unknown query parameters 400. Every error has an error document, unless the
request is not valid HTTP or its headers are too large; errors with different statuses share 400.
`{REQUEST_ID}` in a response identifies it: clients may send one of 1 to 128 visible ASCII
characters, or a `traceparent` (W3C Trace Context). Responses of 1,000 bytes or more are compressed
with gzip if `Accept-Encoding` allows it. For types with many links, only short paths and
{MAX_LISTED} filters are listed; the others are supported too.

`/` is a page for people in browsers; for other clients, `meta` has the URLs of the collections, a
short description of their types and of the operators of filters, and what their access token
allows. A trailing slash is redirected (308). For operators: `{LIVE_PATH}`, `{READY_PATH}` and,
unless it has a port of its own, `{METRICS_PATH}`."""

_SECURITY_SCHEMES: Json = {
    SECURITY_SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token with the scopes that each operation names; `/operations` "
        "requires those of the types that it changes. `read` and `write` suffice for all types, "
        "and writing includes reading. `include`, `withCount`, `filter` and `sort` also require "
        "the scope to read each type they name; changes of relationships, that to write the type "
        "of the related resources.",
    }
}


def describe(graph: Graph, settings: Settings) -> Json:
    """Return the OpenAPI document of a service. Raises InvalidDeclaration for ambiguous names."""
    parameters = ParameterComponents(graph)
    paths = describe_paths(graph, settings, parameters)
    require_distinct(
        operation["operationId"] for item in paths.values() for operation in item.values()
    )
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
            {"name": "Changes", "description": "What changes, as it happens, or after a time."},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas(graph),
            "parameters": parameters.components,
            "responses": error_responses(graph, settings),
            "headers": HEADERS,
            **({"securitySchemes": _SECURITY_SCHEMES} if settings.requires_tokens else {}),
        },
    }


def _tag(resource_type: ResourceType) -> Json:
    described = [
        f"`{name}` (to-{'many' if relationship.to_many else 'one'}, `{relationship.target}`)"
        for name, relationship in resource_type.relationships.items()
    ]
    if resource_type.subject:
        described.append(f"`{resource_type.subject}` (to-one)")
    relationships = ", ".join(described)
    attributes = code(resource_type.attributes)
    description = f"Attributes: {attributes}. Relationships: {relationships or 'none'}."
    return {"name": title(resource_type), "description": description}
