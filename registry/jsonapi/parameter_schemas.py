"""The query parameters in the OpenAPI document: what each row of the table looks like."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.filtering import (
    MAX_PART_LENGTH,
    NULL,
    filter_operators,
    related_fields,
    related_operator,
)
from registry.jsonapi.pagination import sort_names
from registry.jsonapi.query import (
    AFTER,
    MAX_INCLUDE_STEPS,
    SEARCH,
    TYPES,
    WITH_COUNT,
    QueryScope,
)
from registry.jsonapi.query_parser import searched_fields
from registry.model.graph import Graph
from registry.model.implicit_attributes import Moment
from registry.model.record import MAX_ID
from registry.model.resource_type import Relationship, ResourceType
from registry.protocol import LARGEST_PAGE

_Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """A parameter of the OpenAPI document.

    detail: follows the sentence of its row. more: further members of its Parameter Object. owner:
    the type, or the relationship as `person.computers`, whose parameter it is; "" if it is the same
    for all.
    """

    name: str
    schema: _Json
    detail: str = ""
    more: _Json = field(default_factory=dict)
    owner: str = ""


MAX_LISTED = 100
"""Paths that a parameter lists, unless the shortest are more, and parameters that a row has. Links
multiply both: three steps through 20 links from a type to itself are 64,000 paths."""

_SIZE: _Json = {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE}
NUMBER: _Json = {"type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_ID}
STRING: _Json = {"type": "string"}
BOOLEAN: _Json = {"type": "boolean"}


def fixed(
    name: str, schema: _Json = STRING, **more: Any
) -> Callable[[QueryScope], Iterator[Variant]]:
    """Return a description that is the same in each scope."""
    return lambda _: iter([Variant(name, schema, more=more)])


def page_size(scope: QueryScope) -> Iterator[Variant]:
    """Describe the size of a page, whose default is a setting."""
    detail = f"The default is {scope.page_size}."
    yield Variant("page[size]", _SIZE, detail, {"example": 10})  # Swagger UI fails to show many


def sort_keys(scope: QueryScope) -> Iterator[Variant]:
    """Describe the fields to sort by."""
    names = sort_names(scope.resource, scope.graph)
    key = f"-?({'|'.join(map(re.escape, names))})"
    # Not an array of names: Swagger UI would send those selected in the order of the list.
    schema = {**STRING, "pattern": f"^({key}(,{key})*)?$"}
    yield Variant(
        "sort", schema, f"Fields: {quoted(*names)}.", {"allowEmptyValue": True}, scope.resource.type
    )


def include_paths(scope: QueryScope) -> Iterator[Variant]:
    """Describe the paths of relationships."""
    if names := [path for path, _ in _listed_paths(scope)]:
        yield Variant("include", _names(names), "", {"allowEmptyValue": True}, scope.start_name)


def _listed_paths(scope: QueryScope) -> list[tuple[str, Relationship]]:
    """Return paths with their last relationship: without longer ones if they are too many."""
    shortest = _shortest(scope)
    for steps in range(MAX_INCLUDE_STEPS, shortest, -1):
        paths = list(islice(_paths(*scope.start, scope.graph, steps), MAX_LISTED + 1))
        if len(paths) <= MAX_LISTED:
            return paths
    return list(_paths(*scope.start, scope.graph, shortest))


def _shortest(scope: QueryScope) -> int:
    """Return the steps to a relationship of a resource: in linkage, the first has identifiers."""
    return 1 if scope.linkage is None else 2


def _paths(
    resource: ResourceType, relationships: Mapping[str, Relationship], graph: Graph, steps: int
) -> Iterator[tuple[str, Relationship]]:
    """Yield the paths of up to so many steps, with their last relationship."""
    if steps:
        for name, relationship in relationships.items():
            yield name, relationship
            target = graph[relationship.target]
            for path, last in _paths(target, target.relationships, graph, steps - 1):
                yield f"{name}.{path}", last
        if resource.subject:
            yield resource.subject, next(iter(resource.followed.values()))


def include_sizes(scope: QueryScope) -> Iterator[Variant]:
    """Describe the shortest paths: few need longer ones."""
    steps = _shortest(scope)
    for path, relationship in _paths(*scope.start, scope.graph, steps):
        if relationship.to_many and path.count(".") == steps - 1:
            yield Variant(f"page[{path}][size]", _SIZE)


def counts(scope: QueryScope) -> Iterator[Variant]:
    """Describe the names; those of identifiers belong to the resources that `include` adds."""
    names = [
        path
        for path, relationship in _listed_paths(scope)
        if relationship.count_field and path.count(".") >= _shortest(scope) - 1
    ]
    if names:
        yield Variant(WITH_COUNT, _names(names), owner=scope.start_name)


def fieldsets(scope: QueryScope) -> Iterator[Variant]:
    """Describe the fields of each type."""
    for resource in scope.graph.values():
        more: _Json = {"allowEmptyValue": True}
        if not resource.read_only:
            more["example"] = list(resource.attributes)
        yield Variant(f"fields[{resource.type}]", _names(sorted(resource.fieldset_names)), "", more)


def conditions(scope: QueryScope) -> Iterator[Variant]:
    """Describe conditions in JSON, by examples."""
    # A string: many generators of clients drop an operation if a parameter has JSON as `content`,
    # or a recursive schema.
    own = _example_condition(scope.resource)
    sent = {"none": ("No conditions", ""), "attribute": ("An attribute", json.dumps([own]))}
    for name, relationship in scope.resource.relationships.items():
        target = _example_condition(scope.graph[relationship.target])
        nested = {"name": name, "op": related_operator(relationship), "val": target}
        sent[name] = (f"An attribute of {name}", json.dumps([nested]))
    examples = {name: {"summary": text, "value": value} for name, (text, value) in sent.items()}
    detail = f"An example: `{json.dumps([own])}`."
    yield Variant("filter", STRING, detail, {"examples": examples}, scope.resource.type)


def _example_condition(resource: ResourceType) -> _Json:
    name, attribute = next(iter(resource.attributes.items()))
    return {"name": name, "op": "eq", "val": attribute.example}


def search(scope: QueryScope) -> Iterator[Variant]:
    """Describe the search, which no type without text attributes has."""
    names = [each.name for each in searched_fields(scope.resource)]
    if names and SEARCH not in scope.resource.filterable:
        schema = {**STRING, "minLength": 1, "maxLength": MAX_PART_LENGTH}
        detail = f"Attributes: {quoted(*names)}."
        yield Variant(f"filter[{SEARCH}]", schema, detail, owner=scope.resource.type)


def comparisons(scope: QueryScope) -> Iterator[Variant]:
    """Describe each field with any operator: one for each would multiply the parameters."""
    own = scope.resource.filterable.values()
    for attribute in (*own, *related_fields(scope.resource.relationships, scope.graph)):
        name, value = f"filter[{attribute.name}]", dict(attribute.kind.schema)
        if isinstance(attribute.field, Moment):
            detail = "The periods in force at this moment."
            yield Variant(name, value, detail, owner=scope.resource.type)
            continue
        operators = list(filter_operators(attribute))
        if not attribute.nullable:
            operators.remove(NULL)
        elif value != STRING:
            value = {"anyOf": [value, {**STRING, "enum": [NULL]}]}
        schema = {"type": "array", "items": value}
        detail = f"`{name}[OPERATOR]` has these: {quoted(*operators)}."
        yield Variant(name, schema, detail, owner=scope.resource.type)


def feed_position(_: Graph) -> Iterator[Variant]:
    """Describe the position, which has the name of the cursor of a page."""
    yield Variant(AFTER, STRING, owner="changes")


def feed_types(graph: Graph) -> Iterator[Variant]:
    """Describe the types of the feed."""
    names = [resource.type for resource in graph.writable]
    # With an example, as Swagger UI refuses to send an array that is empty.
    yield Variant(TYPES, _names(names) | {"minItems": 1}, more={"example": names})


def _names(values: list[str]) -> _Json:
    return {"type": "array", "items": {"type": "string", "enum": values}}
