"""`filter` -> conditions (JSON:API 1.0, Filtering).

There are two equivalent notations: `filter[last_name][prefix]=Ho` for one condition, and `filter=`
with a JSON array of conditions, which can be combined by `and`, `or` and `not`. Both follow one
relationship: `filter[owner.last_name]=Hopper`, or `has` (to-one) and `any` (to-many) in JSON.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Self, TypeAlias

import orjson
from marshmallow import ValidationError

from registry.jsonapi.error_objects import MAX_ERRORS, ApiErrors, DocumentPosition, quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    filtered_fields,
)
from registry.model.attributes import EQUALITY, Attribute, Operator
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType
from registry.model.stored_fields import StoredField, attribute_fields, stored_fields

MAX_VALUES = 1_000
"""The maximum number of values of `in`."""

MAX_PART_LENGTH = 1_000
"""The maximum length of a `prefix`, and of what a text `contains`: longer than the attributes."""

NULL = "null"
"""The operator that tests for null; it is parsed to EQ or NE with null."""

MAX_DEPTH = 32
"""The maximum nesting depth of arrays and objects in a filter in JSON."""

MAX_CONDITIONS = 250
"""The maximum number of conditions in JSON, each of which may be compared with every resource."""

_MEMBERS = ("name", "op", "val")
_COMBINATORS = ("and", "or", "not")
_HAS, _ANY = "has", "any"
_ALIASES = {"in_": Operator.IN}  # as in flask-combo-jsonapi

_BRACKET = re.compile(r"[\[{\]}]")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}

_JsonPath: TypeAlias = tuple[str | int, ...]
"""A position in JSON: member names and array indexes from the root."""


class _InvalidFilter(Exception):
    """An invalid filter.

    path: the position of the error. defects: the position and the detail of each error.
    """

    def __init__(self, detail: str, *path: str | int) -> None:
        super().__init__(detail)
        self.defects: list[tuple[_JsonPath, str]] = [(path, detail)]


class _At:
    """Reports errors of the block as being below this step.

    Not by `contextmanager`, which takes three times as long: there are two for each condition.
    """

    __slots__ = ("_step",)

    def __init__(self, step: str | int) -> None:
        self._step = step

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, _InvalidFilter):
            error.defects = [((self._step, *path), detail) for path, detail in error.defects]


@dataclass(frozen=True, slots=True)
class _FilterScope:
    """What conditions can name. relationships: none in the conditions on related resources."""

    fields: Mapping[str, StoredField]
    relationships: Mapping[str, Relationship]
    graph: Graph

    @classmethod
    def of(cls, resource: ResourceType, graph: Graph) -> Self:
        """Return the scope of the conditions on resources of a type."""
        return cls(stored_fields(resource), resource.relationships, graph)

    def related(self, relationship: Relationship) -> "_FilterScope":
        """Return the scope of the conditions on related resources."""
        return _FilterScope(attribute_fields(self.graph[relationship.target]), {}, self.graph)

    def paths(self) -> dict[str, tuple[StoredField, Relationship]]:
        """Return the fields of related resources by path, with the relationship."""
        return {
            f"{name}.{field.name}": (replace(field, name=f"{name}.{field.name}"), relationship)
            for name, relationship in self.relationships.items()
            for field in self.related(relationship).fields.values()
        }

    def filter(self, part: Filter, relationship: Relationship | None) -> Filter:
        """Return the filter by related resources that satisfy the part; the part if None."""
        if relationship is None:
            return part
        return Related(relationship, self.graph[relationship.target], part)

    def field(self, name: str) -> tuple[StoredField, Relationship | None]:
        """Return the field with this name, and the relationship if it is a path.

        Raises _InvalidFilter below `name` if there is no such field.
        """
        if name in self.fields:
            return self.fields[name], None
        paths = self.paths()
        if name in paths:
            return paths[name]
        detail = f"Unknown filter field {quoted(name)}; available: {quoted(*self.fields, *paths)}."
        raise _InvalidFilter(detail, "name")


def parse_filter(
    parameter: str, brackets: Sequence[str], value: str, resource: ResourceType, graph: Graph
) -> Filter:
    """Return the filter of a query parameter.

    brackets: the parts of the parameter's name after `filter`: a field and perhaps an operator;
    none if the value is JSON. graph: all types. Raises ApiErrors with an InvalidParameter for each
    condition that is not valid, with its position if it is in JSON.
    """
    scope = _FilterScope.of(resource, graph)
    try:
        _check_encoding(value)
        match brackets:
            case []:
                return _parse_json(value, scope)
            case [name]:
                return _parse_text(name, None, value, scope)
            case [name, operator]:
                return _parse_text(name, operator, value, scope)
        raise _InvalidFilter("A filter must be `filter[name]=value` or `filter[name][op]=value`.")
    except _InvalidFilter as error:
        defects = error.defects[:MAX_ERRORS]
        details = [detail if brackets else _located(path, detail) for path, detail in defects]
        raise ApiErrors([InvalidParameter(one, parameter=parameter) for one in details]) from error


def related_operator(relationship: Relationship) -> str:
    """Return the operator of conditions in JSON on the resources of a relationship."""
    return _ANY if relationship.to_many else _HAS


def _located(path: _JsonPath, detail: str) -> str:
    return f"At `{DocumentPosition(path).pointer}`: {detail}" if path else detail


def _check_encoding(value: str) -> None:
    try:
        value.encode()  # bytes that are not UTF-8 arrive as lone surrogates
    except UnicodeEncodeError as error:
        raise _InvalidFilter("The value is not UTF-8.") from error


def _parse_text(name: str, operator: str | None, text: str, scope: _FilterScope) -> Filter:
    field, relationship = scope.field(name)
    if operator is None:
        operator = _default_operator(field, text)
    value: Any = text
    if operator == NULL:
        value = {"true": True, "false": False}.get(text, text)
    elif operator == Operator.IN:
        value = text.split(",") if text else []
    condition = _parse_condition(field, operator, value, from_text=True)
    return scope.filter(condition, relationship)


def _parse_json(text: str, scope: _FilterScope) -> Filter:
    # First, as the functions below, and the encoder of error details, recurse into the value.
    if _is_too_deep(text):
        raise _InvalidFilter(f"A filter can be nested at most {MAX_DEPTH} levels deep.")
    try:
        conditions = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _InvalidFilter(f"The value is not JSON: {error}.") from error
    parsed = AllOf(_parse_list(conditions, scope))
    count = sum(1 for _ in filtered_fields(parsed, ""))
    if count > MAX_CONDITIONS:
        detail = f"A filter must have at most {MAX_CONDITIONS} conditions, not {count}."
        raise _InvalidFilter(detail)
    return parsed


def _is_too_deep(text: str) -> bool:
    """Return whether more than MAX_DEPTH arrays and objects of JSON are open at once."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Every second part is a string. A pattern for strings takes eight times as long.
    outside_strings = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    steps = map(_STEPS.__getitem__, _BRACKET.findall("".join(outside_strings)))
    return max(accumulate(steps), default=0) > MAX_DEPTH


def _parse_list(conditions: Any, scope: _FilterScope) -> tuple[Filter, ...]:
    if not isinstance(conditions, list):
        raise _InvalidFilter(f"Conditions must be a list, not {_quoted_json(conditions)}.")
    parts: list[Filter] = []
    errors: list[_InvalidFilter] = []
    for index, condition in enumerate(conditions):
        try:
            with _At(index):
                parts.append(_parse_object(condition, scope))
        except _InvalidFilter as error:
            errors.append(error)
    if errors:
        first, *others = errors
        for other in others:
            first.defects += other.defects
        raise first
    return tuple(parts)


def _parse_object(condition: Any, scope: _FilterScope) -> Filter:
    members = len(condition) if isinstance(condition, dict) else 0
    match condition:
        case {"name": str(name), "op": str(operator), "val": value} if members == len(_MEMBERS):
            return _parse_comparison(name, operator, value, scope)
        case {"and": parts} if members == 1:
            with _At("and"):
                return AllOf(_parse_list(parts, scope))
        case {"or": []} if members == 1:
            raise _InvalidFilter("`or` must have at least one condition.")
        case {"or": parts} if members == 1:
            with _At("or"):
                return AnyOf(_parse_list(parts, scope))
        case {"not": part} if members == 1:
            with _At("not"):
                return Not(_parse_object(part, scope))
    raise _InvalidFilter(_defect(condition))


def _parse_comparison(name: str, operator: str, value: Any, scope: _FilterScope) -> Filter:
    relationship = scope.relationships.get(name)
    if relationship and (operator in {_HAS, _ANY} or name not in scope.fields):
        return _parse_related(relationship, operator, value, scope)
    field, relationship = scope.field(name)
    condition = _parse_condition(field, _ALIASES.get(operator, operator), value)
    return scope.filter(condition, relationship)


def _parse_related(
    relationship: Relationship, operator: str, value: Any, scope: _FilterScope
) -> Filter:
    supported = related_operator(relationship)
    if operator != supported:
        kind = "to-many" if relationship.to_many else "to-one"
        detail = f"`{relationship.name}` is {kind}, which {quoted(supported)} filters by, not"
        raise _InvalidFilter(f"{detail} {quoted(operator)}.", "op")
    with _At("val"):
        part = _parse_object(value, scope.related(relationship))
    return scope.filter(part, relationship)


def _defect(condition: Any) -> str:
    """Return the error detail for a condition of an unknown shape."""
    if not isinstance(condition, Mapping):
        return f"A condition must be an object, not {_quoted_json(condition)}."
    if condition.keys() == set(_MEMBERS):
        return f"`name` and `op` must be strings, not as in {_quoted_json(condition)}."
    return (
        f"A condition must have either {quoted(*_MEMBERS)} or one of {quoted(*_COMBINATORS)}; "
        f"{_quoted_json(condition)} has {quoted(*condition)}."
    )


def related_fields(resource: ResourceType, graph: Graph) -> list[StoredField]:
    """Return the fields of related resources that conditions can name, such as `owner.email`."""
    return [field for field, _ in _FilterScope.of(resource, graph).paths().values()]


def filter_operators(attribute: Attribute) -> tuple[str, ...]:
    """Return the operators that clients can compare an attribute by."""
    return (*attribute.operators, NULL)


def _default_operator(field: StoredField, text: str) -> Operator:
    """Return the operator of `filter[name]=`: IN for a list, EQ otherwise.

    An empty value is an empty list, except for free text, where it is a value.
    """
    is_empty_list = not text and Operator.PREFIX not in field.attribute.operators
    return Operator.IN if is_empty_list or "," in text else Operator.EQ


def _parse_condition(
    field: StoredField, operator: str, value: Any, *, from_text: bool = False
) -> Condition:
    """Return a condition. value: from JSON, or if from_text from a query parameter.

    Raises _InvalidFilter below `op` or `val`.
    """
    operators = filter_operators(field.attribute)
    if operator not in operators:
        detail = f"`{field.name}` does not support the operator {quoted(operator)}"
        raise _InvalidFilter(f"{detail}; supported: {quoted(*operators)}.", "op")
    with _At("val"):
        if operator == NULL:
            return _null_test(field, value)
        comparison = Operator(operator)
        if comparison is Operator.IN:
            operands = _operands(field, value, from_text=from_text)
            return Condition(field.stored_name, comparison, operands)
        operand = _operand(field, comparison, value, from_text=from_text)
        return Condition(field.stored_name, comparison, operand)


def _null_test(field: StoredField, value: Any) -> Condition:
    if not isinstance(value, bool):
        detail = f"`null` of `{field.name}` must be true or false, not {_quoted_json(value)}."
        raise _InvalidFilter(detail)
    return Condition(field.stored_name, Operator.EQ if value else Operator.NE, None)


def _operands(field: StoredField, values: Any, *, from_text: bool) -> tuple[Any, ...]:
    """Return the stored form of the values of IN."""
    if not isinstance(values, list):
        raise _InvalidFilter(f"`in` of `{field.name}` must be a list, not {_quoted_json(values)}.")
    if len(values) > MAX_VALUES:
        detail = f"`in` of `{field.name}` must have at most {MAX_VALUES} values, not {len(values)}."
        raise _InvalidFilter(detail)
    operands = []
    for index, value in enumerate(values):
        with _At(index):
            operands.append(_operand(field, Operator.IN, value, from_text=from_text))
    return tuple(operands)


def _operand(field: StoredField, operator: Operator, value: Any, *, from_text: bool) -> Any:
    """Return the stored form of a value to compare with."""
    attribute = field.attribute
    if operator in EQUALITY and attribute.nullable and value == (NULL if from_text else None):
        return None
    if value is None and operator not in EQUALITY:
        raise _InvalidFilter(f"`{operator}` of `{field.name}` must not be null.")
    try:
        if operator in {Operator.PREFIX, Operator.CONTAINS} and isinstance(value, str):
            return _part(field, operator, value)
        return attribute.from_text(value) if from_text else attribute.from_json(value)
    except ValidationError as error:
        detail = (
            f"`{field.name}` must be compared with {attribute.expected}, not {_quoted_json(value)}."
        )
        raise _InvalidFilter(detail) from error


def _part(field: StoredField, operator: Operator, text: str) -> str:
    """Return a part of a value, which does not have to be valid by itself."""
    if len(text) > MAX_PART_LENGTH:
        limit = f"must have at most {MAX_PART_LENGTH} characters, not {len(text)}"
        raise _InvalidFilter(f"`{operator}` of `{field.name}` {limit}.")
    return text


def _quoted_json(value: Any) -> str:
    """Return a value as JSON in backticks, for the detail of an error."""
    return quoted(orjson.dumps(value).decode())
