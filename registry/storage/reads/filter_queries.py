"""Filters -> queries of MongoDB."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter, Not
from registry.model.operators import Operator

_COMPARED = {
    Operator.EQ: "$eq",
    Operator.NE: "$ne",
    Operator.LT: "$lt",
    Operator.LE: "$lte",
    Operator.GT: "$gt",
    Operator.GE: "$gte",
    Operator.IN: "$in",
}

_LAST, _SURROGATES = "\U0010ffff", range(0xD800, 0xE000)


def all_of(conditions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the query of what fulfils all conditions; of everything if there are none."""
    return {"$and": conditions} if conditions else {}


def match(condition: Filter) -> dict[str, Any]:
    """Return the query that finds what fulfils a filter.

    A field that is missing is null. Text is compared by its code points; `contains` takes capital
    and small letters for the same, one by one: `É` is `é`, but `ß` is not `ss`.
    """
    match condition:
        case AllOf(parts):
            return {"$and": [match(part) for part in parts]} if parts else {}
        case AnyOf(parts):
            return {"$or": [match(part) for part in parts]}
        case Not(part):
            return {"$nor": [match(part)]}
        case Condition():
            return {condition.column: _comparison(condition)}
    assert_never(condition)


def _comparison(condition: Condition) -> dict[str, Any]:
    # No value stands by itself: one that looks like an operator would be taken for it.
    match condition:
        case Condition(operator=Operator.PREFIX, value=str(prefix)):
            return _starting(prefix)
        case Condition(operator=Operator.CONTAINS, value=str(text)):
            # BSON ends a pattern at NUL.
            return {"$regex": re.escape(text).replace("\0", r"\x00"), "$options": "i"}
    return {_COMPARED[condition.operator]: condition.value}


def _starting(prefix: str) -> dict[str, str]:
    """Return a range, which an index serves whatever the prefix holds; a pattern it may not."""
    kept = prefix.rstrip(_LAST)
    if not kept:
        return {"$gte": prefix}  # no text is beyond those that start so
    following = ord(kept[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return {"$gte": prefix, "$lt": kept[:-1] + chr(following)}
