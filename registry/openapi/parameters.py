"""What a request can ask for -> the OpenAPI parameters of its path, query and head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from registry.jsonapi.filtering import field_of
from registry.jsonapi.pagination import Sizes
from registry.jsonapi.query import MAX_INCLUDE_STEPS, Scope
from registry.jsonapi.sorting import sort_names
from registry.model.graph import Graph
from registry.model.operators import Operator
from registry.model.resource import Relationship, Resource
from registry.model.stored_fields import fieldset_names, stored_fields
from registry.openapi.filters import sent_value
from registry.openapi.schemas import NUMBER, Json, reference, schema_of, title

ID: Json = {
    "Id": {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The id of the resource. What is not the id of any is answered 404.",
        "schema": NUMBER,
        "example": 1,
    }
}


def _header(name: str, description: str) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


IF_MATCH: Json = {
    "IfMatch": _header(
        "If-Match",
        "Entity tags: only if the resource still has the version of one of them, else 412. `*` is "
        "any version.",
    )
}
IF_NONE_MATCH: Json = {
    "IfNoneMatch": _header(
        "If-None-Match", "Entity tags: an answer that has one of them is not sent again, 304."
    )
}


def query_parameters(scope: Scope) -> Json:
    """Return the query parameters that `query.parse` takes, by the names of their components."""
    found = {**_include(scope), **_fields(scope.graph)}
    if scope.many:
        found |= {**_sort(scope), **_filters(scope.resource), **_pages(scope.sizes)}
    return found


def references(parameters: Json) -> list[Json]:
    """Return references to parameters."""
    return [reference("parameters", name) for name in parameters]


def bounded_paths(scope: Scope) -> list[str]:
    """Return the include paths that end in a to-many relationship whose members are included."""
    return [
        path
        for path, relationship in _include_paths(scope)
        if relationship.to_many and not (scope.linkage and "." not in path)
    ]


def _include(scope: Scope) -> Json:
    resource, relationships = scope.start
    if not relationships:
        return {}
    name = title(resource) + "Include" + (f".{next(iter(relationships))}" if scope.linkage else "")
    include = _list_parameter(
        "include",
        "The relationships to follow; what they lead to is added in `included`.",
        [path for path, _ in _include_paths(scope)],
    )
    sizes = {
        f"{title(resource)}PageSize.{path}": _parameter(
            f"page[{path}][size]",
            f"How many to include at most of each `{path}`, which `include` has to name.",
            _size(scope.sizes),
        )
        for path in bounded_paths(scope)
    }
    return {name: {**include, "example": list(relationships)}, **sizes}


def _include_paths(scope: Scope) -> Iterator[tuple[str, Relationship]]:
    _, relationships = scope.start
    return _paths(relationships, scope.graph, MAX_INCLUDE_STEPS)


def _paths(
    relationships: Mapping[str, Relationship], graph: Graph, steps: int
) -> Iterator[tuple[str, Relationship]]:
    if steps:
        for name, relationship in relationships.items():
            yield name, relationship
            following = graph[relationship.target].relationships
            for path, last in _paths(following, graph, steps - 1):
                yield f"{name}.{path}", last


def _fields(graph: Graph) -> Json:
    return {
        f"{title(resource)}Fields": {
            **_list_parameter(
                f"fields[{resource.type}]",
                f"The only fields to show of each `{resource.type}`; its type, id and links are "
                "always there, its relationships follow `include`.",
                sorted(fieldset_names(resource)),
            ),
            "example": list(resource.attributes),
        }
        for resource in graph.values()
    }


def _sort(scope: Scope) -> Json:
    names = sort_names(scope.resource, scope.graph)
    directions = [f"{sign}{name}" for name in names for sign in ("", "-")]
    description = (
        "The order: by the first of these, and where that is equal by the next; `-` is falling. "
        "Null is before any value, and the id decides in the end. By default `id`."
    )
    return {f"{title(scope.resource)}Sort": _list_parameter("sort", description, directions)}


def _filters(resource: Resource) -> Json:
    # A schema of no type: of an array, Swagger UI would make a list of texts.
    schema = {"anyOf": [schema_of(resource, "Filter")]}
    found = {
        f"{title(resource)}Filter": {
            "name": "filter",
            "in": "query",
            "description": "Conditions in JSON, all of which have to hold: "
            '`[{"name": "...", "op": "...", "val": ...}]`, combined by `and`, `or`, `not`.',
            "content": {"application/json": {"schema": schema, "example": []}},
        }
    }
    for name in stored_fields(resource):
        for parameter, component in _field_filters(resource, name):
            found[f"{title(resource)}Filter.{component}"] = parameter
    return found


def _field_filters(resource: Resource, name: str) -> Iterator[tuple[Json, str]]:
    """Yield the parameters that pick resources by a field, and their names."""
    known = field_of(name, resource).operators
    if Operator.IN in known:
        values = sent_value(resource, name, Operator.IN)
        description = f"Only those whose `{name}` is this, or one of several."
        yield _parameter(f"filter[{name}]", description, values), name
    for operator in known:
        yield (
            _parameter(
                f"filter[{name}][{operator}]",
                _MEANINGS[operator].format(f"`{name}`"),
                sent_value(resource, name, operator),
            ),
            f"{name}.{operator}",
        )


_MEANINGS = {
    "eq": "Only those whose {} is this.",
    "ne": "Only those whose {} is not this.",
    "lt": "Only those whose {} is less.",
    "le": "Only those whose {} is this or less.",
    "gt": "Only those whose {} is greater.",
    "ge": "Only those whose {} is this or greater.",
    "in": "Only those whose {} is one of these.",
    "prefix": "Only those whose {} begins so.",
    "contains": "Only those whose {} has this in it, in capital or small letters.",
    "null": "Only those that have no {}, or with `false` those that have one.",
}


def _pages(sizes: Sizes) -> Json:
    cursor = {"type": "string"}
    return {
        "PageNumber": _parameter("page[number]", "The page with this number, from 1.", NUMBER),
        "PageSize": _parameter(
            "page[size]",
            f"How many resources a page has, by default {sizes.default}. Without any `page`, the "
            "answer is the whole collection.",
            _size(sizes),
        ),
        "PageAfter": _parameter("page[after]", "The page after a cursor of a link.", cursor),
        "PageBefore": _parameter("page[before]", "The page before a cursor of a link.", cursor),
        "PageTotal": _parameter(
            "page[total]",
            "With `page[number]`: whether to count how many there are, by default `true`.",
            {"type": "boolean"},
        ),
    }


def _size(sizes: Sizes) -> Json:
    return {"type": "integer", "minimum": 1, "maximum": sizes.largest}


def _list_parameter(name: str, description: str, values: list[str]) -> Json:
    """Return a parameter that takes a comma-separated list, which may be empty."""
    schema = {"type": "array", "items": {"type": "string", "enum": values}}
    return {**_parameter(name, description, schema), "allowEmptyValue": True}


def _parameter(name: str, description: str, schema: Json) -> Json:
    """Return a query parameter; a list is sent with commas."""
    listed = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    return {"name": name, "in": "query", "description": description, "schema": schema, **listed}
