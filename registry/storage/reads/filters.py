"""Filters -> MongoDB queries."""

import re
from itertools import chain
from typing import Any, assert_never

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter, Not, Related
from registry.model.attributes import Operator
from registry.model.record import ID
from registry.storage.records import Conditions

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


def to_query(condition: Filter) -> dict[str, Any]:
    """Return the query for records that satisfy a filter, which names no related resources.

    A missing field equals null. Text is compared by code point; `contains` ignores case, letter by
    letter: `É` equals `é`, but `ß` does not equal `ss`. Of letters newer than Unicode 3.2, such as
    `Ა` and `ა` (Georgian), the version of MongoDB determines whether they are equal.
    """
    match condition:
        case AllOf(parts):
            return {"$and": [to_query(part) for part in parts]} if parts else {}
        case AnyOf(parts):
            return {"$or": [to_query(part) for part in parts]}
        case Not(part):
            return {"$nor": [to_query(part)]}
        case Condition():
            return {condition.stored_name: _comparison(condition)}
        case Related(relationship):
            raise TypeError(f"a condition on {relationship.name}, which is another collection")
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


def searched_field(conditions: Conditions) -> str | None:
    """Return the field in which conditions search for a part of the text, if they do nothing else.

    Its index is then the best one. MongoDB would often choose that of the order, and compare the
    texts of whole records. Ranges of ids, such as the position of a page, do not count.
    """
    searched = None
    for name, comparison in chain.from_iterable(condition.items() for condition in conditions):
        if name == ID and comparison.keys().isdisjoint({"$eq", "$in"}):
            continue
        if "$regex" not in comparison:
            return None
        searched = name
    return searched
