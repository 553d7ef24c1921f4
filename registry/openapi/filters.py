"""The graph -> OpenAPI schemas of filters."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from registry.jsonapi.filter_parsing import (
    NULL,
    filter_operators,
    related_fields,
    related_operator,
)
from registry.model.attributes import EQUALITY, Attribute, Operator
from registry.model.graph import Graph
from registry.model.resource import Resource
from registry.model.stored_fields import StoredField, attribute_fields, stored_fields
from registry.openapi.schemas import Json, object_of, schema_of, title

_Value = TypeVar("_Value")

_STRING: Json = {"type": "string"}


def parameter_schema(field: StoredField, operator: str) -> Json:
    """Return the schema of a query parameter that compares a field."""

    def or_null(value: Json) -> Json:
        return value if value == _STRING else {"anyOf": [value, {**_STRING, "enum": [NULL]}]}

    return _value_schema(field.attribute, operator, or_null)


def filter_schemas(graph: Graph) -> Json:
    """Return the component schemas of conditions in JSON, which are recursive.

    Each type has one for conditions on its resources, and one for those on them as related ones.
    """
    components: Json = {}
    for resource in graph.values():
        own = [*stored_fields(resource).values(), *related_fields(resource, graph)]
        forms = [*_comparisons(own), *_related_conditions(resource, graph)]
        condition = schema_of(resource, "Condition")
        components[f"{title(resource)}Filter"] = {"type": "array", "items": condition}
        components[f"{title(resource)}Condition"] = _combinable(forms, condition)
        related = schema_of(resource, "RelatedCondition")
        comparisons = _comparisons(attribute_fields(resource).values())
        components[f"{title(resource)}RelatedCondition"] = _combinable(comparisons, related)
    return components


def _combinable(forms: Iterable[Json], condition: Json) -> Json:
    """Return the schema of conditions of these forms. condition: a reference to it."""
    conditions: Json = {"type": "array", "items": condition}
    combined = {"and": conditions, "or": {**conditions, "minItems": 1}, "not": condition}
    return {"anyOf": [*forms, *(object_of({name: one}) for name, one in combined.items())]}


def _related_conditions(resource: Resource, graph: Graph) -> Iterator[Json]:
    """Yield the schema of the conditions on the resources of each relationship."""
    for name, relationship in resource.relationships.items():
        required = {
            "name": {**_STRING, "enum": [name]},
            "op": {**_STRING, "enum": [related_operator(relationship)]},
            "val": schema_of(graph[relationship.target], "RelatedCondition"),
        }
        yield object_of(required)


def _comparisons(fields: Iterable[StoredField]) -> list[Json]:
    """Return one schema for all fields and operators that have values of the same schema."""
    groups = _group((field.name, _values_by_operator(field.attribute)) for field in fields)
    members = [
        {"name": {**_STRING, "enum": names}, "op": {**_STRING, "enum": operators}, "val": value}
        for names, values in groups
        for operators, value in values
    ]
    return [object_of(required) for required in members]


def _values_by_operator(attribute: Attribute) -> list[tuple[list[str], Json]]:
    """Return the schemas of the values of an attribute, each with its operators."""

    def or_null(value: Json) -> Json:
        return {**value, "nullable": True}

    operators = filter_operators(attribute)
    return _group((code, _value_schema(attribute, code, or_null)) for code in operators)


def _group(pairs: Iterable[tuple[str, _Value]]) -> list[tuple[list[str], _Value]]:
    """Return each distinct value with its names. Values do not have to be hashable."""
    groups: list[tuple[list[str], _Value]] = []
    for name, value in pairs:
        for names, other in groups:
            if other == value:
                names.append(name)
                break
        else:
            groups.append(([name], value))
    return groups


def _value_schema(attribute: Attribute, operator: str, or_null: Callable[[Json], Json]) -> Json:
    """Return the schema of the value of a comparison. or_null: adds null to a schema."""
    if operator == NULL:
        return {"type": "boolean"}
    value = dict(attribute.value_schema)
    if operator in EQUALITY and attribute.nullable:
        value = or_null(value)
    return {"type": "array", "items": value} if operator == Operator.IN else value
