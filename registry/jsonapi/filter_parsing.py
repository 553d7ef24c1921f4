"""`filter` -> conditions (JSON:API 1.0, Filtering).

There are two equivalent notations: `filter[last_name][prefix]=Ho` for one condition, and `filter=`
with a JSON array of conditions, which can be combined by `and`, `or` and `not`. Both follow one
relationship: `filter[owner.last_name]=Hopper`, or `has` (to-one) and `any` (to-many) in JSON.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import orjson

from registry.jsonapi.error_collector import MAX_ERRORS, ApiErrors
from registry.jsonapi.error_details import quoted
from registry.jsonapi.errors import InvalidParameter
from registry.jsonapi.filter_conditions import NULL, default_operator, parse_condition
from registry.jsonapi.filter_errors import Below, InvalidFilter, JsonPath, quoted_json
from registry.jsonapi.filter_scope import FilterScope
from registry.jsonapi.filtering import AllOf, AnyOf, Filter, Not, filtered_fields
from registry.jsonapi.pointers import DocumentPosition
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.model.resource_type import Relationship, ResourceType

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


def parse_filter(
    parameter: str, brackets: Sequence[str], value: str, resource: ResourceType, graph: Graph
) -> Filter:
    """Return the filter of a query parameter.

    brackets: the parts of the parameter's name after `filter`: a field and perhaps an operator;
    none if the value is JSON. graph: all types. Raises ApiErrors with an InvalidParameter for each
    condition that is not valid, with its position if it is in JSON.
    """
    scope = FilterScope.of(resource, graph)
    try:
        _check_encoding(value)
        match brackets:
            case []:
                return _parse_json(value, scope)
            case [name]:
                return _parse_text(name, None, value, scope)
            case [name, operator]:
                return _parse_text(name, operator, value, scope)
        raise InvalidFilter("A filter must be `filter[name]=value` or `filter[name][op]=value`.")
    except InvalidFilter as error:
        defects = error.defects[:MAX_ERRORS]
        details = [detail if brackets else _located(path, detail) for path, detail in defects]
        raise ApiErrors([InvalidParameter(one, parameter=parameter) for one in details]) from error


def related_operator(relationship: Relationship) -> str:
    """Return the operator of conditions in JSON on the resources of a relationship."""
    return _ANY if relationship.to_many else _HAS


def _located(path: JsonPath, detail: str) -> str:
    return f"At `{DocumentPosition(path).pointer}`: {detail}" if path else detail


def _check_encoding(value: str) -> None:
    try:
        value.encode()  # bytes that are not UTF-8 arrive as lone surrogates
    except UnicodeEncodeError as error:
        raise InvalidFilter("The value is not UTF-8.") from error


def _parse_text(name: str, operator: str | None, text: str, scope: FilterScope) -> Filter:
    field, relationship = scope.find(name)
    if operator is None:
        operator = default_operator(field, text)
    value: Any = text
    if operator == NULL:
        value = {"true": True, "false": False}.get(text, text)
    elif operator == Operator.IN:
        value = text.split(",") if text else []
    condition = parse_condition(field, operator, value, from_text=True)
    return scope.filter(condition, relationship)


def _parse_json(text: str, scope: FilterScope) -> Filter:
    # First, as the functions below, and the encoder of error details, recurse into the value.
    if _is_too_deep(text):
        raise InvalidFilter(f"A filter can be nested at most {MAX_DEPTH} levels deep.")
    try:
        conditions = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidFilter(f"The value is not JSON: {error}.") from error
    parsed = AllOf(_parse_list(conditions, scope))
    count = sum(1 for _ in filtered_fields(parsed, ""))
    if count > MAX_CONDITIONS:
        detail = f"A filter must have at most {MAX_CONDITIONS} conditions, not {count}."
        raise InvalidFilter(detail)
    return parsed


def _is_too_deep(text: str) -> bool:
    """Return whether more than MAX_DEPTH arrays and objects of JSON are open at once."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    # Every second part is a string. A pattern for strings takes eight times as long.
    outside_strings = text.replace("\\\\", "").replace('\\"', "").split('"')[::2]
    steps = map(_STEPS.__getitem__, _BRACKET.findall("".join(outside_strings)))
    return max(accumulate(steps), default=0) > MAX_DEPTH


def _parse_list(conditions: Any, scope: FilterScope) -> tuple[Filter, ...]:
    if not isinstance(conditions, list):
        raise InvalidFilter(f"Conditions must be a list, not {quoted_json(conditions)}.")
    parts: list[Filter] = []
    errors: list[InvalidFilter] = []
    for index, condition in enumerate(conditions):
        try:
            with Below(index):
                parts.append(_parse_object(condition, scope))
        except InvalidFilter as error:
            errors.append(error)
    if errors:
        first, *others = errors
        for other in others:
            first.defects += other.defects
        raise first
    return tuple(parts)


def _parse_object(condition: Any, scope: FilterScope) -> Filter:
    members = len(condition) if isinstance(condition, dict) else 0
    match condition:
        case {"name": str(name), "op": str(operator), "val": value} if members == len(_MEMBERS):
            return _parse_comparison(name, operator, value, scope)
        case {"and": parts} if members == 1:
            with Below("and"):
                return AllOf(_parse_list(parts, scope))
        case {"or": []} if members == 1:
            raise InvalidFilter("`or` must have at least one condition.")
        case {"or": parts} if members == 1:
            with Below("or"):
                return AnyOf(_parse_list(parts, scope))
        case {"not": part} if members == 1:
            with Below("not"):
                return Not(_parse_object(part, scope))
    raise InvalidFilter(_defect(condition))


def _parse_comparison(name: str, operator: str, value: Any, scope: FilterScope) -> Filter:
    relationship = scope.relationships.get(name)
    if relationship and (operator in {_HAS, _ANY} or name not in scope.fields):
        return _parse_related(relationship, operator, value, scope)
    field, relationship = scope.find(name)
    condition = parse_condition(field, _ALIASES.get(operator, operator), value)
    return scope.filter(condition, relationship)


def _parse_related(
    relationship: Relationship, operator: str, value: Any, scope: FilterScope
) -> Filter:
    supported = related_operator(relationship)
    if operator != supported:
        kind = "to-many" if relationship.to_many else "to-one"
        detail = f"`{relationship.name}` is {kind}, which {quoted(supported)} filters by, not"
        raise InvalidFilter(f"{detail} {quoted(operator)}.", "op")
    with Below("val"):
        part = _parse_object(value, scope.related(relationship))
    return scope.filter(part, relationship)


def _defect(condition: Any) -> str:
    """Return the error detail for a condition of an unknown shape."""
    if not isinstance(condition, Mapping):
        return f"A condition must be an object, not {quoted_json(condition)}."
    if condition.keys() == set(_MEMBERS):
        return f"`name` and `op` must be strings, not as in {quoted_json(condition)}."
    return (
        f"A condition must have either {quoted(*_MEMBERS)} or one of {quoted(*_COMBINATORS)}; "
        f"{quoted_json(condition)} has {quoted(*condition)}."
    )
