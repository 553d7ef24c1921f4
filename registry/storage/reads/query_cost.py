"""How much of a collection a query reads: whether an index serves its filters and its order."""

from collections.abc import Sequence

from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    conjuncts,
    filtered_fields,
)
from registry.jsonapi.sorting import Order
from registry.model.attributes import Operator
from registry.model.stored_fields import ID, UNINDEXED

MAX_OFFSET = 1_000
"""Index keys that a page by number may skip to count as cheap."""

_MAX_VALUES = 100
"""Values whose records MongoDB merges in the order of the ids; of 200, it sorts the records."""

_VALUES = {Operator.EQ, Operator.IN}
_RANGES = {Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.PREFIX}


def is_indexed(filters: Sequence[Filter], order: Order) -> bool:
    """Whether indexes, each of a field and the id, find the records in this order and no others."""
    first = order[0]
    if first.relationship or len(order) > 2 or len({key.descending for key in order}) > 1:
        return False
    if first.stored_name in UNINDEXED or _names_unindexed(filters):
        return False
    if _is_merged(filters, order):
        return True
    conditions = _conditions(filters)
    if not conditions:
        return True
    if None in conditions or len({one.stored_name for one in conditions if one}) > 1:
        return False
    return all(one and _is_indexed(one, order) for one in conditions)


def is_counted_by_index(filters: Sequence[Filter]) -> bool:
    """Whether one index counts the records that satisfy the filters, and reads no others."""
    if _names_unindexed(filters):
        return False
    conditions = _conditions(filters)
    is_served = all(one and one.operator in _VALUES | _RANGES for one in conditions)
    return is_served and len({one.stored_name for one in conditions if one}) == 1


def is_narrow(filters: Sequence[Filter]) -> bool:
    """Whether a field has to have one of a few values, as the foreign key of related resources."""
    return any(one and one.operator in _VALUES for one in _conditions(filters))


def _names_unindexed(filters: Sequence[Filter]) -> bool:
    """Whether filters compare a field that has no index."""
    fields = (field for one in filters for _, field in filtered_fields(one, ""))
    return not UNINDEXED.isdisjoint(fields)


def _is_merged(filters: Sequence[Filter], order: Order) -> bool:
    """Whether records with one of a few values, in any of several fields, are merged by id."""
    match filters:
        case [AnyOf(parts)] | [AllOf((AnyOf(parts),))] if order[0].stored_name == ID:
            counts = [_count(part) for part in parts]
            return None not in counts and sum(filter(None, counts)) <= _MAX_VALUES
    return False


def _count(condition: Filter) -> int | None:
    """Return how many values a condition compares a field with; None if it is another one."""
    match condition:
        case Condition(operator=Operator.EQ):
            return 1
        case Condition(operator=Operator.IN, value=values):
            return len(values)
    return None


def _is_indexed(condition: Condition, order: Order) -> bool:
    name = order[0].stored_name
    if condition.operator in _VALUES | _RANGES and name == condition.stored_name:
        return True
    if name != ID:
        return False
    if condition.operator is Operator.IN:
        return len(condition.value) <= _MAX_VALUES
    return condition.operator is Operator.EQ


def _conditions(filters: Sequence[Filter]) -> list[Condition | None]:
    """Return the conditions that all have to be satisfied; None for what is more complex."""
    return [one if isinstance(one, Condition) else None for one in conjuncts(filters)]
