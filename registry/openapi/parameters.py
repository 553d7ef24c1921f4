"""OpenAPI parameters: path, query string and headers."""

import json
import re
from collections.abc import Iterator, Mapping

from registry.http.idempotency_header import PATTERN
from registry.http.responses import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED
from registry.jsonapi.filter_parsing import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    NULL,
    filter_operators,
    related_fields,
    related_operator,
)
from registry.jsonapi.pagination import PageSizes
from registry.jsonapi.query import MAX_INCLUDE_STEPS, QueryScope
from registry.jsonapi.sorting import sort_names
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.model.stored_fields import StoredField, fieldset_names, stored_fields
from registry.openapi.schema_objects import POSITIVE, Json, code, title

_STRING: Json = {"type": "string"}

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


def _header(name: str, description: str, schema: Json = _STRING) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": schema}


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
    "IdempotencyKey": _header(
        IDEMPOTENCY_KEY,
        "Unique for each request of this client: the request is executed once, and when it is "
        "repeated within 24 hours, the response is that of the first that succeeded, with "
        f"`{IDEMPOTENCY_REPLAYED}: true`. It waits for an equal request in progress. 422 if "
        "path, query string or body differ.",
        {**_STRING, "pattern": PATTERN},
    )
}


def query_parameters(scope: QueryScope) -> Json:
    """Return the query parameters that `parse_query` supports, by component name.

    Swagger UI keeps the order: what prevents an endless response comes first, then what is wanted
    most.
    """
    shown = {**_include(scope), **_fields(scope.graph)}
    if not scope.many:
        return shown
    size, *others = _pages(scope.sizes).items()
    conditions, *comparisons = _filters(scope.resource, scope.graph).items()
    return dict([size, conditions]) | _sort(scope) | shown | dict([*others, *comparisons])


def sized_paths(scope: QueryScope) -> list[str]:
    """Return the include paths that `page[path][size]` applies to: the to-many ones."""
    _, relationships = scope.start
    return [
        path
        for path, relationship in _include_paths(relationships, scope.graph)
        if relationship.to_many and not (scope.linkage and "." not in path)
    ]


def _query(name: str, description: str, schema: Json, **more: Json) -> Json:
    """Return a query parameter; items of an array are separated by commas."""
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    parameter = {"name": name, "in": "query", "description": description, "schema": schema}
    return {**parameter, **style, **more}


def _list_parameter(name: str, description: str, values: list[str]) -> Json:
    """Return a parameter whose value is a comma-separated list, which may be empty."""
    schema = {"type": "array", "items": {"type": "string", "enum": values}}
    return {**_query(name, description, schema), "allowEmptyValue": True}


def _include(scope: QueryScope) -> Json:
    resource, relationships = scope.start
    if not relationships:
        return {}
    name = title(resource) + "Include" + (f".{next(iter(relationships))}" if scope.linkage else "")
    paths = [path for path, _ in _include_paths(relationships, scope.graph)]
    text = "The relationships whose resources the response has in `included`."
    sizes = {
        f"{title(resource)}PageSize.{path}": _query(
            f"page[{path}][size]",
            f"The maximum number of resources to include per `{path}`; requires it in `include`.",
            _size(scope.sizes),
        )
        for path in sized_paths(scope)
    }
    return {name: _list_parameter("include", text, paths), **sizes}


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
    components: Json = {}
    for resource in graph.values():
        text = (
            f"The fields of each `{resource.type}` in the response. Type, id and links are always "
            "present; relationships depend on `include`."
        )
        names = sorted(fieldset_names(resource))
        parameter = _list_parameter(f"fields[{resource.type}]", text, names)
        components[f"{title(resource)}Fields"] = parameter | {"example": list(resource.attributes)}
    return components


def _sort(scope: QueryScope) -> Json:
    names = sort_names(scope.resource, scope.graph)
    description = (
        "The sort fields by precedence, separated by commas; `-` before a name is descending. Null "
        "sorts before any value. The id breaks ties; after a field of a related resource, the id "
        f"of that resource does so first. The default is `id`. Fields: {code(names)}."
    )
    key = f"-?({'|'.join(map(re.escape, names))})"
    # Not an array of names: Swagger UI would send those selected in the order of the list.
    schema = {"type": "string", "pattern": f"^({key}(,{key})*)?$"}
    parameter = {**_query("sort", description, schema), "allowEmptyValue": True}
    return {f"{title(scope.resource)}Sort": parameter}


def _pages(sizes: PageSizes) -> Json:
    size = (
        f"The number of resources per page, {sizes.default} by default. Without any `page` "
        "parameter, the response is the whole collection."
    )
    total = (
        "With `page[number]`: whether to count the resources on all pages, `true` by default. The "
        "total is that of the same point in time as the page; it takes time only with filters."
    )
    cursor = "The page {} this cursor, taken from `meta.page` or a link."
    trial = {"example": min(_TRIAL_SIZE, sizes.largest)}
    return {
        "PageSize": _query("page[size]", size, _size(sizes)) | trial,
        "PageNumber": _query("page[number]", "The number of the page, starting at 1.", POSITIVE),
        "PageAfter": _query("page[after]", cursor.format("after"), _STRING),
        "PageBefore": _query("page[before]", cursor.format("before"), _STRING),
        "PageTotal": _query("page[total]", total, {"type": "boolean"}),
    }


def _size(sizes: PageSizes) -> Json:
    return {"type": "integer", "minimum": 1, "maximum": sizes.largest}


def _filters(resource: ResourceType, graph: Graph) -> Json:
    """Return the filters by component name: conditions in JSON, then one for each field.

    Each field has any operator: one parameter for each operator would multiply the parameters, all
    of which Swagger UI shows.
    """
    fields = [*stored_fields(resource).values(), *related_fields(resource, graph)]
    return {f"{title(resource)}Filter": _conditions(resource, graph)} | {
        f"{title(resource)}Filter.{field.name}": _comparison(field) for field in fields
    }


def _conditions(resource: ResourceType, graph: Graph) -> Json:
    # A string: many generators of clients drop an operation if a parameter has JSON as `content`,
    # or a recursive schema.
    example = _example_condition(resource)
    description = (
        f"Conditions in JSON, combined by AND: `{json.dumps([example])}`, with the fields and "
        "operators of `filter[...]`; `and`, `or` and `not` can be nested, in JSON of at most "
        f"{MAX_DEPTH} levels and {MAX_CONDITIONS} conditions. `in` has an array of at most "
        f"{MAX_VALUES:,} values, `prefix` and `contains` {MAX_PART_LENGTH:,} characters."
    )
    examples = {"none": {"summary": "No conditions", "value": ""}}
    examples["attribute"] = {"summary": "An attribute", "value": json.dumps([example])}
    for name, relationship in resource.relationships.items():
        operator = related_operator(relationship)
        target = _example_condition(graph[relationship.target])
        nested = json.dumps([{"name": name, "op": operator, "val": target}])
        examples[name] = {"summary": f"An attribute of {name}", "value": nested}
        description += (
            f' `{{"name": "{name}", "op": "{operator}", "val": {{...}}}}` is '
            f"satisfied if {'any' if relationship.to_many else 'the'} resource of `{name}` "
            "satisfies the condition in `val`, which can be combined too."
        )
    return _query("filter", description, _STRING, examples=examples)


def _example_condition(resource: ResourceType) -> Json:
    name, attribute = next(iter(resource.attributes.items()))
    return {"name": name, "op": "eq", "val": attribute.openapi_schema()["example"]}


def _comparison(field: StoredField) -> Json:
    operators = list(filter_operators(field.attribute))
    if not field.attribute.nullable:
        operators.remove(NULL)
    related = " None without a related resource." if "." in field.name else ""
    description = (
        f"Resources whose `{field.name}` equals the value, or one of several.{related} "
        f"`filter[{field.name}][...]` compares by an operator: {code(operators)}."
    )
    value = dict(field.attribute.value_schema)
    if field.attribute.nullable and value != _STRING:
        value = {"anyOf": [value, {**_STRING, "enum": [NULL]}]}
    return _query(f"filter[{field.name}]", description, {"type": "array", "items": value})
