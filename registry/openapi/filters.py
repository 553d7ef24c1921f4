"""The graph -> OpenAPI schemas of filters."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from registry.jsonapi.filtering import NULL, filter_operators
from registry.model.attributes import EQUALITY, Operator
from registry.model.graph import Graph
from registry.model.resource import Resource
from registry.model.stored_fields import stored_fields
from registry.openapi.schemas import Json, object_of, schema_of, title

_Value = TypeVar("_Value")

_STRING: Json = {"type": "string"}


def parameter_schema(resource: Resource, name: str, operator: str) -> Json:
    """Return the schema of a query parameter that compares a field."""

    def or_null(value: Json) -> Json:
        return value if value == _STRING else {"anyOf": [value, {**_STRING, "enum": [NULL]}]}

    return _value_schema(resource, name, operator, or_null)


def filter_schemas(graph: Graph) -> Json:
    """Return the component schemas of conditions in JSON, which are recursive."""
    components: Json = {}
    for resource in graph.values():
        condition = schema_of(resource, "Condition")
        conditions: Json = {"type": "array", "items": condition}
        components[f"{title(resource)}Filter"] = conditions
        combined = {"and": conditions, "or": {**conditions, "minItems": 1}, "not": condition}
        combinations = [object_of({name: operand}) for name, operand in combined.items()]
        forms = [*_comparisons(resource), *combinations]
        components[f"{title(resource)}Condition"] = {"anyOf": forms}
    return components


def _comparisons(resource: Resource) -> list[Json]:
    """Return one schema for all fields and operators that have values of the same schema."""
    fields = _group((name, _values_by_operator(resource, name)) for name in stored_fields(resource))
    members = [
        {"name": {**_STRING, "enum": names}, "op": {**_STRING, "enum": operators}, "val": value}
        for names, values in fields
        for operators, value in values
    ]
    return [object_of(required) for required in members]


def _values_by_operator(resource: Resource, name: str) -> list[tuple[list[str], Json]]:
    """Return the schemas of the values of a field, each with its operators."""

    def or_null(value: Json) -> Json:
        return {**value, "nullable": True}

    operators = filter_operators(stored_fields(resource)[name].attribute)
    return _group((code, _value_schema(resource, name, code, or_null)) for code in operators)


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


def _value_schema(
    resource: Resource, name: str, operator: str, or_null: Callable[[Json], Json]
) -> Json:
    """Return the schema of the value of a comparison. or_null: adds null to a schema."""
    if operator == NULL:
        return {"type": "boolean"}
    attribute = stored_fields(resource)[name].attribute
    value = dict(attribute.value_schema)
    if operator in EQUALITY and attribute.nullable:
        value = or_null(value)
    return {"type": "array", "items": value} if operator == Operator.IN else value
