"""OpenAPI parameters: path, query string and headers."""

from collections.abc import Iterator, Mapping

from registry.http.idempotency import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, PATTERN
from registry.jsonapi.filter_parsing import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    filter_operators,
    related_fields,
    related_operator,
)
from registry.jsonapi.pagination import Sizes
from registry.jsonapi.query import MAX_INCLUDE_STEPS, Scope
from registry.jsonapi.sorting import sort_names
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.model.resource import Relationship, Resource
from registry.model.stored_fields import StoredField, fieldset_names, stored_fields
from registry.openapi.filters import parameter_schema
from registry.openapi.schemas import POSITIVE, Json, reference, schema_of, title

ID: Json = {
    "Id": {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "The id of the resource; 404 if it does not exist.",
        "schema": POSITIVE,
        "example": 1,
    }
}


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


def query_parameters(scope: Scope) -> Json:
    """Return the query parameters that `query.parse` supports, by component name."""
    parameters = {**_include(scope), **_fields(scope.graph)}
    if scope.many:
        parameters |= {
            **_sort(scope),
            **_filters(scope.resource, scope.graph),
            **_pages(scope.sizes),
        }
    return parameters


def references(parameters: Json) -> list[Json]:
    """Return references to component parameters."""
    return [reference("parameters", name) for name in parameters]


def sized_paths(scope: Scope) -> list[str]:
    """Return the include paths that `page[path][size]` applies to: the to-many ones."""
    _, relationships = scope.start
    return [
        path
        for path, relationship in _include_paths(relationships, scope.graph)
        if relationship.to_many and not (scope.linkage and "." not in path)
    ]


def _include(scope: Scope) -> Json:
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
        f"{title(resource)}PageSize.{path}": _parameter(
            f"page[{path}][size]",
            f"The maximum number of resources to include per `{path}`; requires it in `include`.",
            _size(scope.sizes),
        )
        for path in sized_paths(scope)
    }
    return {name: {**include, "example": list(relationships)}, **sizes}


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


def _sort(scope: Scope) -> Json:
    names = sort_names(scope.resource, scope.graph)
    directions = [f"{sign}{name}" for name in names for sign in ("", "-")]
    description = (
        "The sort fields, by precedence; `-` is descending. Null sorts before any value, and the "
        "id breaks ties. The default is `id`."
    )
    return {f"{title(scope.resource)}Sort": _list_parameter("sort", description, directions)}


def _filters(resource: Resource, graph: Graph) -> Json:
    # Without a type: for an array, Swagger UI shows a list of text inputs.
    schema = {"anyOf": [schema_of(resource, "Filter")]}
    parameters = {
        f"{title(resource)}Filter": {
            "name": "filter",
            "in": "query",
            "description": "Conditions in JSON, combined by AND: "
            '`[{"name": "...", "op": "...", "val": ...}]`; `and`, `or` and `not` can be nested, in '
            f"JSON of at most {MAX_DEPTH} levels and {MAX_CONDITIONS} conditions. `in` has at most "
            f"{MAX_VALUES:,} values, `prefix` and `contains` {MAX_PART_LENGTH:,} characters."
            + _related_conditions(resource),
            "content": {"application/json": {"schema": schema, "example": []}},
        }
    }
    fields = stored_fields(resource).values()
    described = [*(parameter for field in fields for parameter in _field_filters(field))]
    described += map(_related_filter, related_fields(resource, graph))
    for parameter in described:
        component = parameter["name"].removeprefix("filter[").removesuffix("]").replace("][", ".")
        parameters[f"{title(resource)}Filter.{component}"] = parameter
    return parameters


def _related_conditions(resource: Resource) -> str:
    """Return the description of the conditions on related resources."""
    return "".join(
        f' `{{"name": "{name}", "op": "{related_operator(relationship)}", "val": {{...}}}}` is '
        f"satisfied if {'any' if relationship.to_many else 'the'} resource of `{name}` satisfies "
        "the condition in `val`, which can be combined too."
        for name, relationship in resource.relationships.items()
    )


def _field_filters(field: StoredField) -> Iterator[Json]:
    """Yield the parameters that filter by a field."""
    operators = filter_operators(field.attribute)
    if Operator.IN in operators:
        schema = parameter_schema(field, Operator.IN)
        description = f"Resources whose `{field.name}` equals the value, or one of several."
        yield _parameter(f"filter[{field.name}]", description, schema)
    for operator in operators:
        schema = parameter_schema(field, operator)
        description = _OPERATORS[operator].format(f"`{field.name}`")
        yield _parameter(f"filter[{field.name}][{operator}]", description, schema)


def _related_filter(field: StoredField) -> Json:
    """Return the parameter that filters by a field of related resources, with any operator."""
    operators = ", ".join(f"`{one}`" for one in filter_operators(field.attribute))
    description = (
        f"Resources with a `{field.name}` that equals the value, or one of several; none without a "
        f"related resource. `filter[{field.name}][...]` compares by an operator: {operators}."
    )
    return _parameter(f"filter[{field.name}]", description, parameter_schema(field, Operator.IN))


_OPERATORS = {
    "eq": "Resources whose {} equals the value.",
    "ne": "Resources whose {} does not equal the value.",
    "lt": "Resources whose {} is less than the value.",
    "le": "Resources whose {} is less than or equal to the value.",
    "gt": "Resources whose {} is greater than the value.",
    "ge": "Resources whose {} is greater than or equal to the value.",
    "in": "Resources whose {} equals one of the values.",
    "prefix": "Resources whose {} starts with the value.",
    "contains": "Resources whose {} contains the value, ignoring case, letter by letter.",
    "null": "With `true`, resources whose {} is null; with `false`, the others.",
}


def _pages(sizes: Sizes) -> Json:
    cursor = {"type": "string"}
    members = {
        "number": ("The number of the page, starting at 1.", POSITIVE),
        "size": (
            f"The number of resources per page, {sizes.default} by default. Without any `page` "
            "parameter, the response is the whole collection.",
            _size(sizes),
        ),
        "after": ("The page after this cursor, taken from a link.", cursor),
        "before": ("The page before this cursor, taken from a link.", cursor),
        "total": (
            "With `page[number]`: whether to count the resources on all pages, `true` by default. "
            "The total is that of the same point in time as the page; it takes time only with "
            "filters.",
            {"type": "boolean"},
        ),
    }
    return {
        f"Page{name.title()}": _parameter(f"page[{name}]", description, schema)
        for name, (description, schema) in members.items()
    }


def _size(sizes: Sizes) -> Json:
    return {"type": "integer", "minimum": 1, "maximum": sizes.largest}


def _list_parameter(name: str, description: str, values: list[str]) -> Json:
    """Return a parameter whose value is a comma-separated list, which may be empty."""
    schema = {"type": "array", "items": {"type": "string", "enum": values}}
    return {**_parameter(name, description, schema), "allowEmptyValue": True}


def _parameter(name: str, description: str, schema: Json) -> Json:
    """Return a query parameter; items of an array are separated by commas."""
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    return {"name": name, "in": "query", "description": description, "schema": schema, **style}
