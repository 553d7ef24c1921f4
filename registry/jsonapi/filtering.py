"""`filter` -> what resources have to fulfil (JSON:API 1.0, Filtering).

Two forms say the same: `filter[last_name][prefix]=Ho` for one condition, and `filter=` with a list
of conditions in JSON, which may be combined by `and`, `or` and `not`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, assert_never

import orjson
from marshmallow import ValidationError, fields

from registry.jsonapi.errors import InvalidParameter, quoted
from registry.jsonapi.request_documents import parse_id
from registry.model.attributes import JoinedText
from registry.model.record import MAX_ID
from registry.model.resource import Resource
from registry.model.stored_fields import stored_fields

MOST_LEVELS = 10
"""How deep conditions in JSON may lie inside of each other."""

Value: TypeAlias = "str | int | None"
Filter: TypeAlias = "Condition | AllOf | AnyOf | Not"


class Operator(StrEnum):
    """How a stored field is compared with the value of a condition."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    PREFIX = "prefix"
    CONTAINS = "contains"


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a stored field.

    value: a tuple for IN, text for PREFIX and CONTAINS. Null is a value of EQ, NE and IN only.
    """

    column: str
    operator: Operator
    value: Value | tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Each of the parts is fulfilled; no parts always are."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the parts, of which there is one, is fulfilled."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part is not fulfilled."""

    part: Filter


_NULL = "null"
"""Whether there is a value at all: an operator for clients alone, told as EQ or NE to null."""

_TEXT_OPERATORS = (Operator.PREFIX, Operator.CONTAINS)
_OTHER_OPERATORS = (*(one for one in Operator if one not in _TEXT_OPERATORS), _NULL)
_EQUALITY = (Operator.EQ, Operator.NE)

_MEMBERS = ("name", "op", "val")
_COMBINING = ("and", "or", "not")
_SAME = {"in_": Operator.IN}


class _Wrong(Exception):
    """A filter that has no meaning; the message says why."""


def parse_parameter(
    parameter: str, brackets: Sequence[str], value: str, resource: Resource
) -> Filter:
    """Return what a query parameter asks of resources of this type.

    brackets: what the name has in brackets after `filter`, a field and perhaps an operator;
    nothing where the value is JSON. Raises InvalidParameter if the parameter has no meaning.
    """
    try:
        value.encode()  # bytes that are no UTF-8 arrive as lone surrogates
        match brackets:
            case []:
                return _parse_json(value, resource)
            case [name]:
                field = field_of(name, resource)
                return _parse_condition(field, _usual_operator(field, value), value)
            case [name, operator]:
                return _parse_condition(field_of(name, resource), operator, value)
        raise _Wrong("A filter has the shape `filter[name]=value` or `filter[name][op]=value`.")
    except UnicodeEncodeError as error:
        raise InvalidParameter("The value is not UTF-8.", parameter=parameter) from error
    except _Wrong as error:
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


@dataclass(frozen=True)
class Field:
    """What resources can be picked by: an attribute, or an id where that is None."""

    name: str
    column: str
    attribute: fields.Field[Any] | None

    @property
    def nullable(self) -> bool:
        """Whether null is a value of it."""
        if self.attribute is None:
            return self.column != "_id"
        return bool(self.attribute.allow_none)

    @property
    def textual(self) -> bool:
        """Whether it holds text."""
        return isinstance(self.attribute, fields.String | JoinedText)

    @property
    def operators(self) -> tuple[str, ...]:
        """The names by which clients compare it."""
        return (*_OTHER_OPERATORS, *(_TEXT_OPERATORS if self.textual else ()))

    def value(self, sent: Any) -> Value:
        """Return the value that is stored for a value as JSON or a parameter has it."""
        if sent is None and self.nullable:
            return None
        if self.attribute is None:
            return self._id(sent)
        return self._text(sent) if self.textual else self._loaded(self.attribute, sent)

    def _id(self, sent: Any) -> int:
        number = parse_id(str(sent))  # nothing but text and integers is written as an id
        if number is None:
            raise self._refused(sent, "a positive 64-bit integer")
        return number

    def _text(self, sent: Any) -> str:
        if not isinstance(sent, str):
            raise self._refused(sent, "text")
        return sent

    def _loaded(self, attribute: fields.Field[Any], sent: Any) -> str | int:
        # What may be stored is for writing to say: any value of the kind can be asked for.
        kind = copy(attribute)
        kind.validators = []
        try:
            found = kind.deserialize(sent)
        except ValidationError as error:
            raise self._refused(sent, "a value of another kind") from error
        if isinstance(found, str) or (isinstance(found, int) and abs(found) <= MAX_ID):
            return found
        raise self._refused(sent, "text or a 64-bit integer")

    def _refused(self, sent: Any, expected: str) -> _Wrong:
        return _Wrong(f"`{self.name}` is compared with {expected}, not with {_shown(sent)}.")


def field_of(name: str, resource: Resource) -> Field:
    """Return a field by the name that clients have for it."""
    if name not in stored_fields(resource):
        raise _Wrong(
            f"`{resource.type}` cannot be filtered by {quoted(name)}; "
            f"there are {quoted(*stored_fields(resource))}."
        )
    return Field(name, stored_fields(resource)[name], resource.attributes.get(name))


def _usual_operator(field: Field, text: str) -> Operator:
    """Return what `filter[name]=` means: a list has commas, or is one of no ids."""
    none = not text and field.attribute is None
    return Operator.IN if none or "," in text else Operator.EQ


def _parse_condition(field: Field, operator: str, text: str) -> Condition:
    """Return a condition whose value is the text of a parameter."""

    def or_null(part: str) -> str | None:
        return None if part == "null" and field.nullable else part

    sent: Any = text
    if operator == Operator.IN:
        sent = [or_null(part) for part in text.split(",")] if text else []
    elif operator in _EQUALITY:
        sent = or_null(text)
    elif operator == _NULL:
        sent = {"true": True, "false": False}.get(text, text)
    return _condition(field, operator, sent)


def _condition(field: Field, operator: str, sent: Any) -> Condition:
    """Return a condition whose value is as JSON has it."""
    if operator not in field.operators:
        raise _Wrong(
            f"`{field.name}` has no operator {quoted(operator)}; "
            f"there are {quoted(*field.operators)}."
        )
    if operator == _NULL:
        if not isinstance(sent, bool):
            raise _Wrong(f"`null` of `{field.name}` is true or false, not {_shown(sent)}.")
        return Condition(field.column, Operator.EQ if sent else Operator.NE, None)
    known = Operator(operator)
    if known is Operator.IN:
        if not isinstance(sent, list):
            raise _Wrong(f"`in` of `{field.name}` has a list of values, not {_shown(sent)}.")
        return Condition(field.column, known, tuple(map(field.value, sent)))
    if sent is None and known not in _EQUALITY:
        raise _Wrong(f"`{operator}` of `{field.name}` has a value other than null.")
    return Condition(field.column, known, field.value(sent))


def _parse_json(text: str, resource: Resource) -> Filter:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _Wrong(f"The value is not JSON: {error}.") from error
    return AllOf(_parts(found, resource, 1))


def _parts(found: Any, resource: Resource, level: int) -> tuple[Filter, ...]:
    if not isinstance(found, list):
        raise _Wrong(f"Here is to be a list of conditions, not {_shown(found)}.")
    return tuple(_part(one, resource, level) for one in found)


def _part(found: Any, resource: Resource, level: int) -> Filter:
    if level > MOST_LEVELS:
        raise _Wrong(f"Conditions lie at most {MOST_LEVELS} levels deep.")
    match found:
        case {"and": sent, **others} if not others:
            return AllOf(_parts(sent, resource, level + 1))
        case {"or": [], **others} if not others:
            raise _Wrong("`or` has at least one condition.")
        case {"or": sent, **others} if not others:
            return AnyOf(_parts(sent, resource, level + 1))
        case {"not": sent, **others} if not others:
            return Not(_part(sent, resource, level + 1))
        case {"name": str(name), "op": str(operator), "val": sent, **others} if not others:
            return _condition(field_of(name, resource), _SAME.get(operator, operator), sent)
    raise _Wrong(_defect(found))


def _defect(found: Any) -> str:
    """Say what is wrong with what is no condition."""
    if not isinstance(found, Mapping):
        return f"A condition is an object, not {_shown(found)}."
    if found.keys() == set(_MEMBERS):
        return f"`name` and `op` are text; in {_shown(found)} they are not."
    return (
        f"A condition has {quoted(*_MEMBERS)}, or one of {quoted(*_COMBINING)} and nothing else; "
        f"{_shown(found)} has {quoted(*found)}."
    )


def _shown(sent: Any) -> str:
    return quoted(orjson.dumps(sent).decode())
