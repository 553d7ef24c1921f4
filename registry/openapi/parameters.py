"""OpenAPI parameters: path, query string and headers."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from registry.http.request_headers import PATTERN
from registry.jsonapi.changes import AFTER, TYPES
from registry.jsonapi.filtering import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PART_LENGTH,
    MAX_VALUES,
    NULL,
    filter_operators,
    related_fields,
    related_operator,
)
from registry.jsonapi.pagination import sort_names
from registry.jsonapi.query import MAX_INCLUDE_STEPS, QueryScope
from registry.model.graph import Graph
from registry.model.implicit_attributes import Moment
from registry.model.resource_field import ResourceField
from registry.model.resource_type import Relationship, ResourceType
from registry.openapi.attribute_schemas import example_of
from registry.openapi.schemas import POSITIVE, Json, code
from registry.protocol import (
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    LARGEST_PAGE,
    LAST_EVENT_ID,
    MERGE,
    PREFER,
    ROLL_BACK,
)

_STRING: Json = {"type": "string"}


def _parameter(
    place: str, name: str, description: str, schema: Json = _STRING, **more: Any
) -> Json:
    """Return a parameter; items of an array are separated by commas."""
    style = {"style": "form", "explode": False} if schema.get("type") == "array" else {}
    parameter = {"name": name, "in": place, "description": description, "schema": schema}
    return {**parameter, **style, **more}


_header, _query = partial(_parameter, "header"), partial(_parameter, "query")

ID = _parameter(
    "path", "id", "The id of the resource; 404 if it does not exist.", POSITIVE, required=True
)
"""The id in the path. Swagger UI prefills it only where `example` is added: nobody changes or
deletes a resource without having typed its id."""

_SIZE: Json = {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE}

PRECONDITIONS = (
    _header(
        "If-Match",
        "Entity tags. A read with none of them, or a change of a resource whose current version "
        "has none of them, gets 412. `*` matches any.",
    ),
    _header(
        "If-None-Match",
        "Entity tags. A read with one of them gets 304; a change of a resource whose current "
        "version has one of them gets 412. `*` matches any.",
    ),
)

IDEMPOTENCY = _header(
    IDEMPOTENCY_KEY,
    "Unique for each request of this client. The request is executed once; a repetition within "
    "24 hours gets the response of the first that succeeded, with "
    f"`{IDEMPOTENCY_REPLAYED}: true`, and waits for it if it is in progress. 422 if path, query "
    "string, body or preferences differ.",
    {**_STRING, "pattern": PATTERN},
)

PREFERENCES = _header(
    PREFER,
    f"Preferences (RFC 7240), separated by commas. `{MERGE}`: updates, as PATCH does, the resource "
    "that has the value of a unique attribute, instead of adding one; 400 without a unique "
    f"attribute. `{ROLL_BACK}`: checks and executes everything, but stores nothing; the response "
    "is otherwise the same, with ids that no resource has. Other preferences are ignored.",
)


def feed_parameters(graph: Graph) -> list[Json]:
    """Return the parameters of the change feed."""
    types = "The types whose changes are sent, by default all that the access token may read."
    after = "The position after which changes are sent, by default the present."
    again = "The same, sent by browsers that connect again. It precedes `page[after]`."
    names = [one.type for one in graph.writable]
    return [
        # With an example, as Swagger UI refuses to send an array that is empty.
        _query(TYPES, types, _names(names) | {"minItems": 1}, example=names),
        _query(AFTER, after),
        _header(LAST_EVENT_ID, again),
    ]


def query_parameters(scope: QueryScope) -> list[Json]:
    """Return the query parameters of `parse_query`, first what prevents an endless response."""
    resource_type, graph = scope.resource, scope.graph
    shown = [*_include(scope), *map(_fields, graph.values())]
    if not scope.many:
        return shown
    size, *pages = _pages(scope.page_size)
    # Each field has any operator: one parameter for each operator would multiply the parameters.
    own = {**resource_type.stored_fields, **resource_type.moment_fields}
    fields = [*own.values(), *related_fields(resource_type, graph)]
    first = [size, _conditions(resource_type, graph), _sort(scope)]
    return [*first, *shown, *pages, *map(_comparison, fields)]


def _names(values: list[str]) -> Json:
    return {"type": "array", "items": {"type": "string", "enum": values}}


def _include(scope: QueryScope) -> list[Json]:
    _, relationships = scope.start
    paths = dict(_include_paths(relationships, scope.graph))
    if not paths:
        return []
    text = "The relationships whose resources the response has in `included`."
    sized = "The maximum number of resources to include per `{0}`; requires it in `include`."
    # Those that linkage itself has are the primary data.
    own = relationships if scope.linkage else {}
    return [
        _query("include", text, _names(list(paths)), allowEmptyValue=True),
        *(
            _query(f"page[{path}][size]", sized.format(path), _SIZE)
            for path, relationship in paths.items()
            if relationship.to_many and path not in own
        ),
    ]


def _include_paths(
    relationships: Mapping[str, Relationship], graph: Graph, steps: int = MAX_INCLUDE_STEPS
) -> Iterator[tuple[str, Relationship]]:
    if steps:
        for name, relationship in relationships.items():
            yield name, relationship
            following = graph[relationship.target].relationships
            for path, last in _include_paths(following, graph, steps - 1):
                yield f"{name}.{path}", last


def _fields(resource_type: ResourceType) -> Json:
    text = (
        f"The fields of each `{resource_type.type}` in the response. Type, id and links are always "
        "present; relationships depend on `include`."
    )
    more: Json = {"allowEmptyValue": True}
    if not resource_type.read_only:  # Swagger UI folds parameters without an example
        more["example"] = list(resource_type.attributes)
    return _query(
        f"fields[{resource_type.type}]", text, _names(sorted(resource_type.fieldset_names)), **more
    )


def _sort(scope: QueryScope) -> Json:
    names = sort_names(scope.resource, scope.graph)
    description = (
        "The sort fields by precedence, separated by commas; `-` before a name is descending. Null "
        "sorts before any value. The id breaks ties; after a field of a related resource, "
        f"that resource's id breaks them first. The default is `id`. Fields: {code(names)}."
    )
    key = f"-?({'|'.join(map(re.escape, names))})"
    # Not an array of names: Swagger UI would send those selected in the order of the list.
    schema = {"type": "string", "pattern": f"^({key}(,{key})*)?$"}
    return _query("sort", description, schema, allowEmptyValue=True)


def _pages(default: int) -> list[Json]:
    size = (
        f"The number of resources per page, {default} by default. Without any `page` "
        "parameter, the response is the whole collection."
    )
    total = (
        "With `page[number]`: whether to count the resources on all pages, `true` by default. The "
        "total is that of the same point in time as the page; it takes time only with filters."
    )
    cursor = "The page {} this cursor, taken from `meta.page` or a link."
    return [
        _query("page[size]", size, _SIZE, example=10),  # Swagger UI cannot show a large collection
        _query("page[number]", "The number of the page, starting at 1.", POSITIVE),
        _query("page[after]", cursor.format("after")),
        _query("page[before]", cursor.format("before")),
        _query("page[total]", total, {"type": "boolean"}),
    ]


def _conditions(resource_type: ResourceType, graph: Graph) -> Json:
    # A string: many generators of clients drop an operation if a parameter has JSON as `content`,
    # or a recursive schema.
    example = _example_condition(resource_type)
    description = (
        f"Conditions in JSON, combined by AND: `{json.dumps([example])}`, with the fields and "
        "operators of `filter[...]`; `and`, `or` and `not` can be nested, in JSON of at most "
        f"{MAX_DEPTH} levels and {MAX_CONDITIONS} conditions. `in` has an array of at most "
        f"{MAX_VALUES:,} values, `prefix` and `contains` {MAX_PART_LENGTH:,} characters. The "
        "resource of a to-one relationship (`has`), or any of a to-many one (`any`), satisfies "
        "the condition in `val`, which can be combined too."
    )
    examples = {
        "none": {"summary": "No conditions", "value": ""},
        "attribute": {"summary": "An attribute", "value": json.dumps([example])},
    }
    for name, relationship in resource_type.relationships.items():
        target = _example_condition(graph[relationship.target])
        nested = {"name": name, "op": related_operator(relationship), "val": target}
        examples[name] = {"summary": f"An attribute of {name}", "value": json.dumps([nested])}
    return _query("filter", description, examples=examples)


def _example_condition(resource_type: ResourceType) -> Json:
    name, attribute = next(iter(resource_type.attributes.items()))
    return {"name": name, "op": "eq", "val": example_of(attribute)}


def _comparison(field: ResourceField) -> Json:
    if isinstance(field.field, Moment):
        schema = dict(field.kind.schema)
        return _query(f"filter[{field.name}]", "The periods in force at this moment.", schema)
    operators = list(filter_operators(field))
    if not field.nullable:
        operators.remove(NULL)
    related = " None without a related resource." if "." in field.name else ""
    description = (
        f"Resources whose `{field.name}` equals the value, or one of several.{related} "
        f"`filter[{field.name}][...]` compares by an operator: {code(operators)}."
    )
    value = dict(field.kind.schema)
    if field.nullable and value != _STRING:
        value = {"anyOf": [value, {**_STRING, "enum": [NULL]}]}
    schema = {"type": "array", "items": value}
    return _query(f"filter[{field.name}]", description, schema, **{"x-operators": operators})
