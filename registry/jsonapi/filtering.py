"""`filter` -> the conditions that resources have to satisfy (JSON:API 1.0, Filtering).

Two notations mean the same: `filter[last_name][prefix]=Ho` for one condition, and `filter=` with a
list of conditions in JSON, which can be combined by `and`, `or` and `not`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import orjson
from marshmallow import ValidationError

from registry.jsonapi.errors import InvalidParameter, quoted
from registry.model.attributes import Attribute
from registry.model.operators import EQUALITY, Operator
from registry.model.resource import Resource
from registry.model.stored_fields import stored_fields

MAX_DEPTH = 10
"""How deep conditions in JSON can be nested."""

NULL = "null"
"""Whether there is a value at all: an operator of clients, which becomes EQ or NE with null."""

Filter: TypeAlias = "Condition | AllOf | AnyOf | Not"


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a stored field with a value, in the form that records have.

    value: a tuple for IN, text for PREFIX and CONTAINS. Null is a value of EQ, NE and IN only.
    """

    column: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part is satisfied; always so if there are none."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the parts, of which there is at least one, is satisfied."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is not satisfied."""

    part: Filter


_MEMBERS = ("name", "op", "val")
_COMBINATORS = ("and", "or", "not")
_ALIASES = {"in_": Operator.IN}  # as flask-combo-jsonapi has it


class _InvalidFilter(Exception):
    """A filter that means nothing; the message says why."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field that a type can be filtered by, under the name that clients use."""

    name: str
    column: str
    attribute: Attribute

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that clients can use with it."""
        return (*self.attribute.operators, NULL)


def parse_filter(parameter: str, brackets: Sequence[str], value: str, resource: Resource) -> Filter:
    """Return the filter that a query parameter asks for.

    brackets: the parts of the parameter's name after `filter`: a field and perhaps an operator;
    none if the value is JSON. Raises InvalidParameter.
    """
    try:
        value.encode()  # bytes that are not UTF-8 arrive as lone surrogates
        match brackets:
            case []:
                return _parse_json(value, resource)
            case [name]:
                field = field_of(name, resource)
                return _parse_condition(field, _default_operator(field, value), value)
            case [name, operator]:
                return _parse_condition(field_of(name, resource), operator, value)
        raise _InvalidFilter("A filter is `filter[name]=value` or `filter[name][op]=value`.")
    except UnicodeEncodeError as error:
        raise InvalidParameter("The value is not UTF-8.", parameter=parameter) from error
    except _InvalidFilter as error:
        raise InvalidParameter(str(error), parameter=parameter) from error


def columns(condition: Filter) -> Iterator[str]:
    """Yield the stored fields that a filter compares."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from columns(part)
        case Not(part):
            yield from columns(part)
        case Condition(column):
            yield column
        case _:
            assert_never(condition)


def field_of(name: str, resource: Resource) -> Field:
    """Return the field of this name. Raises an error, which names those that exist."""
    fields = stored_fields(resource)
    if name not in fields:
        raise _InvalidFilter(
            f"`{resource.type}` cannot be filtered by {quoted(name)}; use {quoted(*fields)}."
        )
    return Field(name, fields[name].stored_name, fields[name].attribute)


def _default_operator(field: Field, text: str) -> Operator:
    """Return the operator of `filter[name]=`: IN for a list, EQ otherwise.

    No value is an empty list, but for free text, of which it is a value.
    """
    is_empty_list = not text and Operator.PREFIX not in field.attribute.operators
    return Operator.IN if is_empty_list or "," in text else Operator.EQ


def _parse_condition(field: Field, operator: str, text: str) -> Condition:
    """Return a condition whose value is the text of a query parameter."""
    if operator == NULL:
        return _condition(field, operator, {"true": True, "false": False}.get(text, text))
    if operator != Operator.IN:
        return _condition(field, operator, text, from_text=True)
    return _condition(field, operator, text.split(",") if text else [], from_text=True)


def _condition(field: Field, operator: str, value: Any, *, from_text: bool = False) -> Condition:
    """Return a condition. value: as JSON has it, or else text of a query parameter."""
    if operator not in field.operators:
        raise _InvalidFilter(
            f"`{field.name}` does not support the operator {quoted(operator)}; "
            f"use {quoted(*field.operators)}."
        )
    if operator == NULL:
        if not isinstance(value, bool):
            raise _InvalidFilter(f"`null` of `{field.name}` is true or false, not {_text(value)}.")
        return Condition(field.column, Operator.EQ if value else Operator.NE, None)
    known = Operator(operator)
    if known is not Operator.IN:
        return Condition(field.column, known, _operand(field, known, value, from_text=from_text))
    if not isinstance(value, list):
        raise _InvalidFilter(f"`in` of `{field.name}` takes a list of values, not {_text(value)}.")
    operands = (_operand(field, known, one, from_text=from_text) for one in value)
    return Condition(field.column, known, tuple(operands))


def _operand(field: Field, operator: Operator, value: Any, *, from_text: bool) -> Any:
    """Return the stored form of a value to compare with."""
    attribute = field.attribute
    if operator in EQUALITY and attribute.nullable and value == (NULL if from_text else None):
        return None
    if value is None and operator not in EQUALITY:
        raise _InvalidFilter(f"`{operator}` of `{field.name}` takes a value other than null.")
    try:
        if operator in {Operator.PREFIX, Operator.CONTAINS} and isinstance(value, str):
            return value  # a part of a value
        return attribute.from_text(value) if from_text else attribute.from_json(value)
    except ValidationError as error:
        raise _InvalidFilter(
            f"`{field.name}` is compared with {attribute.expected}, not with {_text(value)}."
        ) from error


def _parse_json(text: str, resource: Resource) -> Filter:
    try:
        conditions = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _InvalidFilter(f"The value is not JSON: {error}.") from error
    return AllOf(_parse_list(conditions, resource, 1))


def _parse_list(conditions: Any, resource: Resource, depth: int) -> tuple[Filter, ...]:
    if not isinstance(conditions, list):
        raise _InvalidFilter(f"Expected a list of conditions, not {_text(conditions)}.")
    return tuple(_parse_object(one, resource, depth) for one in conditions)


def _parse_object(condition: Any, resource: Resource, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise _InvalidFilter(f"Conditions can be nested at most {MAX_DEPTH} levels deep.")
    match condition:
        case {"and": parts, **others} if not others:
            return AllOf(_parse_list(parts, resource, depth + 1))
        case {"or": [], **others} if not others:
            raise _InvalidFilter("`or` takes at least one condition.")
        case {"or": parts, **others} if not others:
            return AnyOf(_parse_list(parts, resource, depth + 1))
        case {"not": part, **others} if not others:
            return Not(_parse_object(part, resource, depth + 1))
        case {"name": str(name), "op": str(operator), "val": value, **others} if not others:
            return _condition(field_of(name, resource), _ALIASES.get(operator, operator), value)
    raise _InvalidFilter(_defect(condition))


def _defect(condition: Any) -> str:
    """Return what is wrong with the shape of a condition."""
    if not isinstance(condition, Mapping):
        return f"A condition is an object, not {_text(condition)}."
    if condition.keys() == set(_MEMBERS):
        return f"`name` and `op` are strings; in {_text(condition)} they are not."
    return (
        f"A condition has {quoted(*_MEMBERS)}, or else one of {quoted(*_COMBINATORS)}; "
        f"{_text(condition)} has {quoted(*condition)}."
    )


def _text(value: Any) -> str:
    return quoted(orjson.dumps(value).decode())
