"""`filter` -> conditions (JSON:API 1.0, Filtering).

There are two equivalent notations: `filter[last_name][prefix]=Ho` for one condition, and `filter=`
with a JSON array of conditions, which can be combined by `and`, `or` and `not`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias, assert_never

import orjson
from marshmallow import ValidationError

from registry.jsonapi.errors import MAX_ERRORS, ApiErrors, InvalidParameter, quoted
from registry.model.attributes import EQUALITY, Attribute, Operator
from registry.model.resource import Resource
from registry.model.stored_fields import StoredField, stored_fields

MAX_DEPTH = 32
"""The maximum nesting depth of arrays and objects in a filter in JSON."""

NULL = "null"
"""The operator that tests for null; it is parsed to EQ or NE with null."""

Filter: TypeAlias = "Condition | AllOf | AnyOf | Not"


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a stored field with a value as in a record.

    value: a tuple for IN, text for PREFIX and CONTAINS. Only EQ, NE and IN take null.
    """

    stored_name: str
    operator: Operator
    value: Any


@dataclass(frozen=True, slots=True)
class AllOf:
    """Matches if every part does; always if there are none."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Matches if at least one part does. There is at least one."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Matches if the part does not."""

    part: Filter


_MEMBERS = ("name", "op", "val")
_COMBINATORS = ("and", "or", "not")
_ALIASES = {"in_": Operator.IN}  # as in flask-combo-jsonapi

_BRACKET = re.compile(r"[\[{\]}]")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}


class _InvalidFilter(Exception):
    """An invalid filter; each argument becomes the detail of an error."""


def parse_filter(parameter: str, brackets: Sequence[str], value: str, resource: Resource) -> Filter:
    """Return the filter of a query parameter.

    brackets: the parts of the parameter's name after `filter`: a field and perhaps an operator;
    none if the value is JSON. Raises ApiErrors with an InvalidParameter for each condition that is
    not valid.
    """
    try:
        _check_encoding(value)
        match brackets:
            case []:
                return _parse_json(value, resource)
            case [name]:
                field = _field(name, resource)
                return _parse_condition(field, _default_operator(field, value), value)
            case [name, operator]:
                return _parse_condition(_field(name, resource), operator, value)
        raise _InvalidFilter("A filter must be `filter[name]=value` or `filter[name][op]=value`.")
    except _InvalidFilter as error:
        details = error.args[:MAX_ERRORS]
        raise ApiErrors([InvalidParameter(one, parameter=parameter) for one in details]) from error


def _check_encoding(value: str) -> None:
    try:
        value.encode()  # bytes that are not UTF-8 arrive as lone surrogates
    except UnicodeEncodeError as error:
        raise _InvalidFilter("The value is not UTF-8.") from error


def filtered_fields(condition: Filter) -> Iterator[str]:
    """Yield the stored names of the fields that a filter compares."""
    match condition:
        case AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from filtered_fields(part)
        case Not(part):
            yield from filtered_fields(part)
        case Condition(stored_name):
            yield stored_name
        case _:
            assert_never(condition)


def filter_operators(attribute: Attribute) -> tuple[str, ...]:
    """Return the operators that clients can compare an attribute by."""
    return (*attribute.operators, NULL)


def _field(name: str, resource: Resource) -> StoredField:
    fields = stored_fields(resource)
    if name not in fields:
        raise _InvalidFilter(f"Unknown filter field {quoted(name)}; available: {quoted(*fields)}.")
    return fields[name]


def _default_operator(field: StoredField, text: str) -> Operator:
    """Return the operator of `filter[name]=`: IN for a list, EQ otherwise.

    An empty value is an empty list, except for free text, where it is a value.
    """
    is_empty_list = not text and Operator.PREFIX not in field.attribute.operators
    return Operator.IN if is_empty_list or "," in text else Operator.EQ


def _parse_condition(field: StoredField, operator: str, text: str) -> Condition:
    value: Any = text
    if operator == NULL:
        value = {"true": True, "false": False}.get(text, text)
    elif operator == Operator.IN:
        value = text.split(",") if text else []
    return _condition(field, operator, value, from_text=True)


def _condition(
    field: StoredField, operator: str, value: Any, *, from_text: bool = False
) -> Condition:
    """Return a condition. value: from JSON, or if from_text from a query parameter."""
    operators = filter_operators(field.attribute)
    if operator not in operators:
        detail = f"`{field.name}` does not support the operator {quoted(operator)}"
        raise _InvalidFilter(f"{detail}; supported: {quoted(*operators)}.")
    if operator == NULL:
        if not isinstance(value, bool):
            detail = f"`null` of `{field.name}` must be true or false, not {_text(value)}."
            raise _InvalidFilter(detail)
        return Condition(field.stored_name, Operator.EQ if value else Operator.NE, None)
    comparison = Operator(operator)
    if comparison is not Operator.IN:
        operand = _operand(field, comparison, value, from_text=from_text)
        return Condition(field.stored_name, comparison, operand)
    if not isinstance(value, list):
        raise _InvalidFilter(f"`in` of `{field.name}` must be a list, not {_text(value)}.")
    operands = (_operand(field, comparison, item, from_text=from_text) for item in value)
    return Condition(field.stored_name, comparison, tuple(operands))


def _operand(field: StoredField, operator: Operator, value: Any, *, from_text: bool) -> Any:
    """Return the stored form of a value to compare with."""
    attribute = field.attribute
    if operator in EQUALITY and attribute.nullable and value == (NULL if from_text else None):
        return None
    if value is None and operator not in EQUALITY:
        raise _InvalidFilter(f"`{operator}` of `{field.name}` must not be null.")
    try:
        if operator in {Operator.PREFIX, Operator.CONTAINS} and isinstance(value, str):
            return value  # part of a value, which does not have to be valid by itself
        return attribute.from_text(value) if from_text else attribute.from_json(value)
    except ValidationError as error:
        detail = f"`{field.name}` must be compared with {attribute.expected}, not {_text(value)}."
        raise _InvalidFilter(detail) from error


def _parse_json(text: str, resource: Resource) -> Filter:
    # First, as the functions below, and the encoder of error details, recurse into the value.
    if _is_too_deep(text):
        raise _InvalidFilter(f"A filter can be nested at most {MAX_DEPTH} levels deep.")
    try:
        conditions = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _InvalidFilter(f"The value is not JSON: {error}.") from error
    return AllOf(_parse_list(conditions, resource))


def _is_too_deep(text: str) -> bool:
    """Return whether more than MAX_DEPTH arrays and objects of JSON are open at once."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Every second part is a string. A pattern for strings takes eight times as long.
    outside_strings = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    steps = map(_STEPS.__getitem__, _BRACKET.findall("".join(outside_strings)))
    return max(accumulate(steps), default=0) > MAX_DEPTH


def _parse_list(conditions: Any, resource: Resource) -> tuple[Filter, ...]:
    if not isinstance(conditions, list):
        raise _InvalidFilter(f"Conditions must be a list, not {_text(conditions)}.")
    parts: list[Filter] = []
    details: list[str] = []
    for condition in conditions:
        try:
            parts.append(_parse_object(condition, resource))
        except _InvalidFilter as error:
            details += error.args
    if details:
        raise _InvalidFilter(*details)
    return tuple(parts)


def _parse_object(condition: Any, resource: Resource) -> Filter:
    match condition:
        case {"name": str(name), "op": str(operator), "val": value, **others} if not others:
            return _condition(_field(name, resource), _ALIASES.get(operator, operator), value)
        case {"and": parts, **others} if not others:
            return AllOf(_parse_list(parts, resource))
        case {"or": [], **others} if not others:
            raise _InvalidFilter("`or` must have at least one condition.")
        case {"or": parts, **others} if not others:
            return AnyOf(_parse_list(parts, resource))
        case {"not": part, **others} if not others:
            return Not(_parse_object(part, resource))
    raise _InvalidFilter(_defect(condition))


def _defect(condition: Any) -> str:
    """Return the error detail for a condition of an unknown shape."""
    if not isinstance(condition, Mapping):
        return f"A condition must be an object, not {_text(condition)}."
    if condition.keys() == set(_MEMBERS):
        return f"`name` and `op` must be strings, not as in {_text(condition)}."
    return (
        f"A condition must have either {quoted(*_MEMBERS)} or one of {quoted(*_COMBINATORS)}; "
        f"{_text(condition)} has {quoted(*condition)}."
    )


def _text(value: Any) -> str:
    return quoted(orjson.dumps(value).decode())
