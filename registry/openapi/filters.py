"""The graph -> what resources can be filtered by, told as OpenAPI schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from registry.jsonapi.filtering import NULL, field_of
from registry.model.graph import Graph
from registry.model.operators import EQUALITY, Operator
from registry.model.resource import Resource
from registry.model.stored_fields import stored_fields
from registry.openapi.schemas import Json, object_of, schema_of, title

_Value = TypeVar("_Value")

_STRING: Json = {"type": "string"}


def sent_value(resource: Resource, name: str, operator: str) -> Json:
    """Return the schema of the value of a query parameter."""

    def or_null(value: Json) -> Json:
        if value == _STRING:
            return value
        return {"anyOf": [value, {"type": "string", "enum": [NULL]}]}

    return _compared(resource, name, operator, or_null)


def filter_schemas(graph: Graph) -> Json:
    """Return the schemas of conditions in JSON, which may lie inside of each other."""
    found: Json = {}
    for resource in graph.values():
        many: Json = {"type": "array", "items": schema_of(resource, "Condition")}
        found[f"{title(resource)}Filter"] = many
        found[f"{title(resource)}Condition"] = {
            "anyOf": [
                *_conditions(resource),
                object_of({"and": many}, required=["and"]),
                object_of({"or": {**many, "minItems": 1}}, required=["or"]),
                object_of({"not": schema_of(resource, "Condition")}, required=["not"]),
            ]
        }
    return found


def _conditions(resource: Resource) -> Iterator[Json]:
    """Yield a schema for each set of fields and operators that are used alike."""
    fields = _alike((name, list(_values(resource, name))) for name in stored_fields(resource))
    for names, values in fields:
        for known, value in values:
            properties = {
                "name": {"type": "string", "enum": names},
                "op": {"type": "string", "enum": known},
                "val": value,
            }
            yield object_of(properties, required=properties)


def _values(resource: Resource, name: str) -> list[tuple[list[str], Json]]:
    """Return what a field is compared with, by operators that take the same."""

    def or_null(value: Json) -> Json:
        return {**value, "nullable": True}

    return _alike(
        (operator, _compared(resource, name, operator, or_null))
        for operator in field_of(name, resource).operators
    )


def _alike(pairs: Iterable[tuple[str, _Value]]) -> list[tuple[list[str], _Value]]:
    """Return the names that have the same value together."""
    found: list[tuple[list[str], _Value]] = []
    for name, value in pairs:
        names = next((names for names, same in found if same == value), None)
        if names is None:
            found.append(([name], value))
        else:
            names.append(name)
    return found


def _compared(
    resource: Resource, name: str, operator: str, or_null: Callable[[Json], Json]
) -> Json:
    """Return the schema of what a field is compared with; or_null: adds null to a schema."""
    if operator == NULL:
        return {"type": "boolean"}
    attribute = stored_fields(resource)[name].attribute
    value = attribute.json_schema()
    if operator in EQUALITY and attribute.nullable:
        value = or_null(value)
    return {"type": "array", "items": value} if operator == Operator.IN else value
