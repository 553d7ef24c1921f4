"""OpenAPI parameters: path, query string and headers."""

import re
from collections.abc import Iterator, Mapping

from registry.http.idempotency_header import PATTERN
from registry.http.responses import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED
from registry.jsonapi.pagination import PageSizes
from registry.jsonapi.query import MAX_INCLUDE_STEPS, QueryScope
from registry.jsonapi.sorting import sort_names
from registry.model.graph import Graph
from registry.model.resource_type import Relationship
from registry.model.stored_fields import fieldset_names
from registry.openapi.filters import filter_parameters
from registry.openapi.schema_objects import (
    POSITIVE,
    Json,
    code,
    query_parameter,
    reference,
    title,
)

_ID: Json = {
    "name": "id",
    "in": "path",
    "required": True,
    "description": "The id of the resource; 404 if it does not exist.",
    "schema": POSITIVE,
}

ID: Json = {"Id": {**_ID, "example": 1}}
"""The id in the path of operations that only read."""

ID_TO_WRITE: Json = {"IdToWrite": _ID}
"""The id in the path of operations that write: Swagger UI prefills none, so nobody changes or
deletes a resource without having typed its id."""

_TRIAL_SIZE = 10
"""The page size that Swagger UI prefills: it cannot show a large collection."""


def _header(name: str, description: str) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


PRECONDITIONS: Json = {
    "IfMatch": _header(
        "If-Match",
        "Entity tags: 412 unless a read has one of them, or unless one of them is of the current "
        "version of the resource to change. `*` matches any.",
    ),
    "IfNoneMatch": _header(
        "If-None-Match",
        "Entity tags: 304 if a read has one of them, 412 if one of them is of the current version "
        "of the resource to change. `*` matches any.",
    ),
}


IDEMPOTENCY: Json = {
    "IdempotencyKey": {
        **_header(
            IDEMPOTENCY_KEY,
            "Unique for each request of this client: the request is executed once, and when it is "
            "repeated within 24 hours, the response is that of the first that succeeded, with "
            f"`{IDEMPOTENCY_REPLAYED}: true`. It waits for an equal request in progress. 422 if "
            "path, query string or body differ.",
        ),
        "schema": {"type": "string", "pattern": PATTERN},
    }
}


def query_parameters(scope: QueryScope) -> Json:
    """Return the query parameters that `parse_query` supports, by component name."""
    shown = {**_include(scope), **_fields(scope.graph)}
    if not scope.many:
        return shown
    # Swagger UI keeps this order: what prevents an endless response comes first.
    selected = {**_sort(scope), **filter_parameters(scope.resource, scope.graph)}
    return {**_pages(scope.sizes), **shown, **selected}


def references(parameters: Json) -> list[Json]:
    """Return references to component parameters."""
    return [reference("parameters", name) for name in parameters]


def sized_paths(scope: QueryScope) -> list[str]:
    """Return the include paths that `page[path][size]` applies to: the to-many ones."""
    _, relationships = scope.start
    return [
        path
        for path, relationship in _include_paths(relationships, scope.graph)
        if relationship.to_many and not (scope.linkage and "." not in path)
    ]


def _include(scope: QueryScope) -> Json:
    resource, relationships = scope.start
    if not relationships:
        return {}
    name = title(resource) + "Include" + (f".{next(iter(relationships))}" if scope.linkage else "")
    include = _list_parameter(
        "include",
        "The relationships whose resources the response has in `included`.",
        [path for path, _ in _include_paths(relationships, scope.graph)],
    )
    sizes = {
        f"{title(resource)}PageSize.{path}": query_parameter(
            f"page[{path}][size]",
            f"The maximum number of resources to include per `{path}`; requires it in `include`.",
            _size(scope.sizes),
        )
        for path in sized_paths(scope)
    }
    return {name: include, **sizes}


def _include_paths(
    relationships: Mapping[str, Relationship], graph: Graph, steps: int = MAX_INCLUDE_STEPS
) -> Iterator[tuple[str, Relationship]]:
    if steps:
        for name, relationship in relationships.items():
            yield name, relationship
            following = graph[relationship.target].relationships
            for path, last in _include_paths(following, graph, steps - 1):
                yield f"{name}.{path}", last


def _fields(graph: Graph) -> Json:
    return {
        f"{title(resource)}Fields": {
            **_list_parameter(
                f"fields[{resource.type}]",
                f"The fields of each `{resource.type}` in the response. Type, id and links are "
                "always present; relationships depend on `include`.",
                sorted(fieldset_names(resource)),
            ),
            "example": list(resource.attributes),
        }
        for resource in graph.values()
    }


def _sort(scope: QueryScope) -> Json:
    names = sort_names(scope.resource, scope.graph)
    description = (
        "The sort fields by precedence, separated by commas; `-` before a name is descending. Null "
        "sorts before any value. The id breaks ties; after a field of a related resource, the id "
        "of that resource does so first. The default is `id`. Fields: "
        f"{code(names)}."
    )
    key = f"-?({'|'.join(map(re.escape, names))})"
    # Not an array of names: Swagger UI would send those selected in the order of the list.
    schema = {"type": "string", "pattern": f"^({key}(,{key})*)?$"}
    parameter = {**query_parameter("sort", description, schema), "allowEmptyValue": True}
    return {f"{title(scope.resource)}Sort": parameter}


def _pages(sizes: PageSizes) -> Json:
    cursor = {"type": "string"}
    size = (
        f"The number of resources per page, {sizes.default} by default. Without any `page` "
        "parameter, the response is the whole collection."
    )
    members = {
        "number": ("The number of the page, starting at 1.", POSITIVE),
        "after": ("The page after this cursor, taken from a link.", cursor),
        "before": ("The page before this cursor, taken from a link.", cursor),
        "total": (
            "With `page[number]`: whether to count the resources on all pages, `true` by default. "
            "The total is that of the same point in time as the page; it takes time only with "
            "filters.",
            {"type": "boolean"},
        ),
    }
    example = {"example": min(_TRIAL_SIZE, sizes.largest)}
    return {"PageSize": {**query_parameter("page[size]", size, _size(sizes)), **example}} | {
        f"Page{name.title()}": query_parameter(f"page[{name}]", description, schema)
        for name, (description, schema) in members.items()
    }


def _size(sizes: PageSizes) -> Json:
    return {"type": "integer", "minimum": 1, "maximum": sizes.largest}


def _list_parameter(name: str, description: str, values: list[str]) -> Json:
    """Return a parameter whose value is a comma-separated list, which may be empty."""
    schema = {"type": "array", "items": {"type": "string", "enum": values}}
    return {**query_parameter(name, description, schema), "allowEmptyValue": True}
