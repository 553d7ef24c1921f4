"""`filter` -> MongoDB queries."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, assert_never
from unicodedata import ucd_3_2_0

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter, Not, Related
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

_CASED_CHARACTERS = 0x20000
"""The characters that have case are below this code point."""

_UNASSIGNED = "Cn"


def all_of(conditions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the query for records that satisfy all conditions; every record if none are given."""
    return {"$and": conditions} if conditions else {}


def match(condition: Filter) -> dict[str, Any]:
    """Return the query for records that satisfy a filter, which names no related resources.

    A missing field equals null. Text is compared by code point; `contains` ignores case, letter by
    letter, as Unicode's case folding does in all scripts: `É` equals `é` and `Ა` equals `ა`, but
    `ß` does not equal `ss`, and the dotless i does not equal `I`.
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
        case Related(relationship):
            raise TypeError(f"a condition on {relationship.name}, which is another collection")
    assert_never(condition)


def _comparison(condition: Condition) -> dict[str, Any]:
    # Always below an operator: a value that looks like one would be interpreted.
    match condition:
        case Condition(operator=Operator.PREFIX, value=str(prefix)):
            return _prefix_range(prefix)
        case Condition(operator=Operator.CONTAINS, value=str(text)):
            return {"$regex": _substring(text), "$options": "i"}
    return {_OPERATORS[condition.operator]: condition.value}


def _substring(text: str) -> str:
    """Return the pattern of text, for the option `i`."""
    if not text.isascii():
        recent = _recent_letters()
        return "".join(recent.get(one) or _escape(one) for one in text)
    return _escape(text)  # at once, which takes a fifth of the time


def _escape(text: str) -> str:
    return re.escape(text).replace("\0", r"\x00")  # a BSON pattern ends at NUL


@cache
def _recent_letters() -> Mapping[str, str]:
    """Return the pattern of each letter with a case variant that is newer than Unicode 3.2.

    They are Georgian, Cherokee and others. Which of them the option `i` covers depends on the
    version of MongoDB; the older ones it always covers.
    """
    by_folding: dict[str, list[str]] = defaultdict(list)
    for character in map(chr, range(_CASED_CHARACTERS)):
        folding = character.casefold()
        if folding != character and len(folding) == 1:
            by_folding[folding].append(character)
    patterns: dict[str, str] = {}
    for folding, variants in by_folding.items():
        letters = [folding, *variants]
        recent = [one for one in letters if ucd_3_2_0.category(one) == _UNASSIGNED]
        if recent:
            # One of the older letters stands for all: the size of a pattern is limited.
            older = [one for one in letters if one not in recent][:1]
            patterns |= dict.fromkeys(letters, f"[{''.join(older + recent)}]")
    return patterns


def _prefix_range(prefix: str) -> dict[str, str]:
    """Return a range: an index serves it for every prefix, but a pattern only for some."""
    significant = prefix.rstrip(_MAX_CHARACTER)
    if not significant:
        return {"$gte": prefix}  # no greater text has another prefix
    following = ord(significant[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    return {"$gte": prefix, "$lt": significant[:-1] + chr(following)}
