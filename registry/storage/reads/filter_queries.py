"""`filter` -> MongoDB queries."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter, Not
from registry.model.attributes import Operator

_OPERATORS = {
    Operator.EQ: "$eq",
    Operator.NE: "$ne",
    Operator.LT: "$lt",
    Operator.LE: "$lte",
    Operator.GT: "$gt",
    Operator.GE: "$gte",
    Operator.IN: "$in",
}

_MAX_CHARACTER, _SURROGATES = "\U0010ffff", range(0xD800, 0xE000)


def all_of(conditions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the query for records that satisfy all conditions; every record if none are given."""
    return {"$and": conditions} if conditions else {}


def match(condition: Filter) -> dict[str, Any]:
    """Return the query for records that satisfy a filter.

    A missing field equals null. Text is compared by code point; `contains` ignores case, letter by
    letter: `É` equals `é`, but `ß` does not equal `ss`.
    """
    match condition:
        case AllOf(parts):
            return {"$and": [match(part) for part in parts]} if parts else {}
        case AnyOf(parts):
            return {"$or": [match(part) for part in parts]}
        case Not(part):
            return {"$nor": [match(part)]}
        case Condition():
            return {condition.stored_name: _comparison(condition)}
    assert_never(condition)


def _comparison(condition: Condition) -> dict[str, Any]:
    # Always below an operator: a value that looks like one would be interpreted.
    match condition:
        case Condition(operator=Operator.PREFIX, value=str(prefix)):
            return _prefix_range(prefix)
        case Condition(operator=Operator.CONTAINS, value=str(text)):
            # A BSON pattern ends at NUL.
            return {"$regex": re.escape(text).replace("\0", r"\x00"), "$options": "i"}
    return {_OPERATORS[condition.operator]: condition.value}


def _prefix_range(prefix: str) -> dict[str, str]:
    """Return a range: an index serves it for every prefix, but a pattern only for some."""
    significant = prefix.rstrip(_MAX_CHARACTER)
    if not significant:
        return {"$gte": prefix}  # no greater text has another prefix
    following = ord(significant[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return {"$gte": prefix, "$lt": significant[:-1] + chr(following)}
