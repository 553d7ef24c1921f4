"""Filters -> MongoDB queries, and which of them an index serves.

- An index has one field and the id. It serves a query that filters by its field, or by none, and
  whose order is that of its keys: it then finds the records in this order, and no others.
- `contains` compares all keys of an index.
"""

import re
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, assert_never

from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    conjuncts,
    filtered_fields,
    related_filters,
)
from registry.jsonapi.pagination import BY_ID, Key, Order
from registry.model.attributes import Operator
from registry.model.record import ID
from registry.model.resource_type import ResourceType
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

_MAX_VALUES = 100
"""Values whose records MongoDB merges in the order of the ids; of 200, it sorts the records."""

_VALUES = {Operator.EQ, Operator.IN}
_RANGES = {Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.PREFIX}

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


def is_indexed(
    resource: ResourceType, filters: Sequence[Filter], order: Order, unindexed: Collection[str]
) -> bool:
    """Whether one index, of a field and the id, finds the records in this order and no others.

    unindexed: the types whose indexes are not complete yet.
    """
    first, parts = order[0], list(conjuncts(filters))
    if first.relationship or not is_index_order(order) or not first.attribute.is_indexed:
        return False
    if resource.type in unindexed and (filters or first.stored_name != ID):
        return False
    conditions = [part for part in parts if isinstance(part, Condition)]
    fields = {condition.stored_name for condition in conditions}
    if len(conditions) < len(parts) or len(fields) > 1 or not fields <= resource.indexed_fields:
        return False
    return all(_is_ordered(condition, order) for condition in conditions)


def is_index_order(order: Order) -> bool:
    """Whether an index covers all keys: each has one field and the id, in the same direction."""
    return len(order) <= 2 and len({key.descending for key in order}) == 1


def finds_related(filters: Sequence[Filter], unindexed: Collection[str]) -> bool:
    """Whether indexes find all related records that filters name."""
    for related in chain.from_iterable(map(related_filters, filters)):
        names = {name for _, name in filtered_fields(related.part, related.target)}
        order = (*map(Key, names - {ID}), *BY_ID)
        if not is_indexed(related.target, [related.part], order, unindexed):
            return False
    return True


def _is_ordered(condition: Condition, order: Order) -> bool:
    """Whether the index that finds the records has them in this order."""
    name = order[0].stored_name
    if condition.operator in _VALUES | _RANGES and name == condition.stored_name:
        return True
    if name != ID:
        return False
    if condition.operator is Operator.IN:
        return len(condition.value) <= _MAX_VALUES
    return condition.operator is Operator.EQ
