"""Query plans: which indexes serve a query, and so whether it is heavy.

Each index is of a field and the id. A query is heavy if it may read many more records than it
returns.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from registry.jsonapi.filtering import (
    Condition,
    Filter,
    conjuncts,
    filtered_fields,
    related_filters,
)
from registry.jsonapi.sorting import BY_ID, Key, Order
from registry.model.attributes import Operator
from registry.model.record import ID
from registry.model.resource_type import ResourceType

MAX_OFFSET = 1_000
"""Index keys that a page by number may skip, or a total may count, before it is heavy."""

_MAX_VALUES = 100
"""Values whose records MongoDB merges in the order of the ids; of 200, it sorts the records."""

_VALUES = {Operator.EQ, Operator.IN}
_RANGES = {Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.PREFIX}


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How indexes serve a query.

    is_indexed: one index finds the records in this order and no others. is_counted: one index
    counts them. has_few_values: a field has to have one of a few values, as the foreign key of
    related resources. finds_related: indexes find all related records that the filters name.
    """

    is_indexed: bool
    is_counted: bool = False
    has_few_values: bool = False
    finds_related: bool = False

    def is_heavy(self, offset: int = 0) -> bool:
        """Whether a page, or a stream, is heavy. offset: records before the page."""
        return not self.is_indexed or offset > MAX_OFFSET

    def is_heavy_total(self, count: int) -> bool:
        """Whether it is heavy to count so many records, of which an index has one key each."""
        return not self.is_counted or count > MAX_OFFSET


def plan(
    resource_type: ResourceType, filters: Sequence[Filter], order: Order, unindexed: Collection[str]
) -> QueryPlan:
    """Return the plan of a query. unindexed: the types whose indexes are not complete yet."""
    is_by_id = order[0].stored_name == ID and not order[0].relationship
    if resource_type.type in unindexed:
        return QueryPlan(is_indexed=is_by_id and not filters)
    is_indexed, conditions = _is_indexed(resource_type, filters, order), _conditions(filters)
    return QueryPlan(
        is_indexed=is_indexed,
        is_counted=_is_counted(resource_type, filters),
        has_few_values=is_indexed and any(one and one.operator in _VALUES for one in conditions),
        finds_related=_finds_related(filters, unindexed),
    )


def _is_indexed(resource: ResourceType, filters: Sequence[Filter], order: Order) -> bool:
    first = order[0]
    if first.relationship or len(order) > 2 or len({key.descending for key in order}) > 1:
        return False
    if not first.attribute.is_indexed or _names_unindexed(resource, filters):
        return False
    conditions = _conditions(filters)
    if len({one and one.stored_name for one in conditions}) > 1:
        return False
    return all(one and _is_ordered(one, order) for one in conditions)


def _is_counted(resource: ResourceType, filters: Sequence[Filter]) -> bool:
    if _names_unindexed(resource, filters):
        return False
    conditions = _conditions(filters)
    is_served = all(one and one.operator in _VALUES | _RANGES for one in conditions)
    return is_served and len({one.stored_name for one in conditions if one}) == 1


def _finds_related(filters: Sequence[Filter], unindexed: Collection[str]) -> bool:
    for related in (one for part in filters for one in related_filters(part)):
        part, target = related.part, related.target
        names = {name for _, name in filtered_fields(part, target)}
        is_indexed = _is_indexed(target, [part], (*map(Key, names - {ID}), *BY_ID))
        if not is_indexed or target.type in unindexed:
            return False
    return True


def _names_unindexed(resource: ResourceType, filters: Sequence[Filter]) -> bool:
    """Whether filters compare a field that has no index."""
    return any(
        name not in each.indexed_fields
        for one in filters
        for each, name in filtered_fields(one, resource)
    )


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


def _conditions(filters: Sequence[Filter]) -> list[Condition | None]:
    """Return the conditions that all have to be satisfied; None for what is more complex."""
    return [one if isinstance(one, Condition) else None for one in conjuncts(filters)]
