"""Filters and orders by fields of related resources.

- Few related resources that match a filter become a condition on ids. If they are many, records
  are read in batches, and the filter is applied to each batch: by one query on the other side of
  each relationship. By `$lookup`, MongoDB takes 40 times the CPU time for a page, as it looks up
  more records than it returns, and twice for all.
- Few records are joined with their targets and sorted as a whole. If they are many, the targets
  are read in their order, by an index, each batch with the records that link to them.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from registry.jsonapi.filtering import AllOf, AnyOf, Condition, Filter, Not, Related
from registry.jsonapi.pagination import BY_ID, Order, Position
from registry.model.attributes import Operator
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage.mongo.read_commands import aggregate_command, find_command
from registry.storage.reads.filters import to_query
from registry.storage.reads.selection import RELATED, Selection, beyond, position_of, sort_field
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import Conditions, Stage, conjunction

MAX_BATCH = 1_000
"""Records, or targets, that are read at a time."""

MAX_IDS = 5_000
"""Ids in the condition of a page, whose records MongoDB sorts in 12 ms."""

RECORDS_PER_RESULT = 10
"""Records read at a time per record needed, where others follow or a filter applies to them."""

_EXTRA_TARGETS = 16
"""Targets in the first batch beyond the records that are needed: some targets have none."""

_UNLINKED: Record = {ID: None}
"""Stands in for a missing target. All its fields are null, so it sorts first or last."""


def sorted_relationship(order: Order) -> Relationship | None:
    """Return the to-one relationship of an order that sorts by its targets, then by id.

    None for other orders, such as one with an own field after a related one.
    """
    *keys, _ = order
    relationships = {key.relationship for key in keys}
    if len(relationships) != 1 or len({key.descending for key in order}) > 1:
        return None
    return keys[-1].relationship if keys[-1].stored_name == ID else None


async def with_linked_ids(part: Filter, records: Selection, limit: int) -> Filter:
    """Return a filter with conditions on ids in place of those on related resources.

    records: those to filter. A condition that more related records match than `limit` is kept.
    Raises PyMongoError, or ExecutionTimeout after the time limit.
    """
    match part:
        case AllOf(parts) | AnyOf(parts):
            return type(part)(
                tuple([await with_linked_ids(inner, records, limit) for inner in parts])
            )
        case Not(negated):
            return Not(await with_linked_ids(negated, records, limit))
        case Related(relationship, target):
            field, linking = _link_fields(relationship)
            related = records.follow(target, [part.part], BY_ID)
            conditions = related.conditions or [{linking: {"$ne": None}}]
            ids = await _linked_ids(records.snapshot, target, conditions, linking, limit)
            if ids is not None:
                return Condition(field, Operator.IN, tuple(sorted(ids)))
    return part


async def _linked_ids(
    snapshot: Snapshot, resource_type: ResourceType, conditions: Conditions, field: str, limit: int
) -> set[int] | None:
    """Return the ids in a field of the records of a type that satisfy conditions.

    None if more records than `limit` do, or, without conditions, if there are more ids.
    """
    bound: Stage = {"$limit": limit + 1}
    stages: list[Stage] = [{"$match": conjunction(conditions)}, bound]
    if not conditions:  # the index of the field has each id in one place
        stages = [{"$sort": {field: 1}}, {"$group": {ID: f"${field}"}}, bound]
    name = field if conditions else ID
    # Decoded as one document; `$addToSet` takes longer.
    ids = {"$group": {ID: None, "ids": {"$push": f"${name}"}, "count": {"$sum": 1}}}
    found = await snapshot.run(aggregate_command(resource_type.collection, [*stages, ids]))
    if not found:
        return set()
    return None if found[0]["count"] > limit else _not_null(found[0]["ids"])


async def matching_ids(
    part: Filter, selection: Selection, records: Sequence[Record]
) -> Collection[int]:
    """Return the ids of the records of a selection that satisfy a filter. Raises PyMongoError."""
    ids = [record[ID] for record in records]
    snapshot = selection.snapshot
    match part:
        case AllOf(parts):
            for inner in parts:
                matching = await matching_ids(inner, selection, records)
                records = [record for record in records if record[ID] in matching]
            return {record[ID] for record in records}
        case AnyOf(parts):
            return {id_ for inner in parts for id_ in await matching_ids(inner, selection, records)}
        case Not(negated):
            return set(ids).difference(await matching_ids(negated, selection, records))
        case Related(relationship, target, part):
            field, linking = _link_fields(relationship)
            keys = _not_null(record.get(field) for record in records)
            linked = await _matching_values(snapshot, target, linking, keys, part)
            return {record[ID] for record in records if record.get(field) in linked}
        case Condition():
            return await _matching_values(snapshot, selection.resource_type, ID, ids, part)
    assert_never(part)


async def _matching_values(
    snapshot: Snapshot,
    resource_type: ResourceType,
    field: str,
    values: Collection[int],
    part: Filter,
) -> set[int]:
    """Return the values of a field, among some values, in the records that satisfy a filter."""
    if not values:
        return set()
    query = {"$and": [{field: {"$in": list(values)}}, to_query(part)]}
    shown = {ID: field == ID, field: True}
    limit = RECORDS_PER_RESULT * MAX_BATCH
    command = find_command(resource_type.collection, query, shown, limit=limit)
    found = await snapshot.run(command)
    if len(found) < limit:
        return {record[field] for record in found}
    # Without duplicates, which takes twice the CPU time if there are few.
    stages: list[Stage] = [{"$match": query}, {"$group": {ID: f"${field}"}}]
    found = await snapshot.run(aggregate_command(resource_type.collection, stages))
    return {group[ID] for group in found}


def _not_null(values: Iterable[int | None]) -> set[int]:
    """Return the ids among the values of a link: null links to no resource."""
    return {value for value in values if value is not None}


def _link_fields(relationship: Relationship) -> tuple[str, str]:
    """Return the stored field of records that links them to related ones, and the latter's."""
    key = relationship.foreign_key
    return (ID, key) if relationship.to_many else (key, ID)


class RelatedOrder:
    """Reads a selection in an order that has a `sorted_relationship`.

    filters: on related resources; they may reduce the targets to read, but callers have to check
    each record. Records whose target does not exist are left out: no index of the targets has them.
    """

    def __init__(
        self,
        records: Selection,
        order: Order,
        relationship: Relationship,
        filters: Iterable[Filter],
    ) -> None:
        self._records = records
        self._name, self._foreign_key = relationship.name, relationship.foreign_key
        self._own_key = order[-1]
        self._order = tuple(replace(key, relationship=None) for key in order[:-1])
        parts = [
            part.part
            for part in filters
            if isinstance(part, Related) and part.relationship == relationship
        ]
        target = records.snapshot.reads.graph[relationship.target]
        self._targets = records.follow(target, parts, self._order)

    async def batches(self, position: Position, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position in batches, the first probably of `size` or more.

        Raises PyMongoError.
        """
        limit = RECORDS_PER_RESULT * (size + _EXTRA_TARGETS)
        after = beyond(self._own_key, position[-1]) if position else ()
        async for targets in self._target_batches(position[:-1], size):
            async for records in self._linked(targets, after, limit):
                yield records
            after = ()

    async def _target_batches(self, place: Position, size: int) -> AsyncGenerator[list[Record]]:
        """Yield the target at a place by itself, then all targets after it in batches.

        If the first batch has too few records, only targets that have any are read after it,
        unless there are many of these.
        """
        is_last, has_unlinked = self._own_key.descending, not self._targets.filters
        if place and place[-1] is None:
            yield [_UNLINKED]
            if is_last:
                return
            place = ()
        elif place:
            fields = map(sort_field, self._order)
            there = [{name: {"$eq": value}} for name, value in zip(fields, place, strict=True)]
            yield await self._targets.first(there, self._order, 1)
        elif has_unlinked and not is_last:
            yield [_UNLINKED]
        records, key, number = self._records, self._foreign_key, size + _EXTRA_TARGETS
        keys = [
            {ID: condition[key]} for condition in records.conditions if condition.keys() == {key}
        ]
        conditions: Conditions = [*self._targets.conditions, *keys]
        is_first = True
        while targets := await self._targets.after(conditions, self._order, place, number):
            yield targets
            if len(targets) < number:
                break
            if is_first:
                ids = await _linked_ids(
                    records.snapshot, records.resource_type, records.conditions, key, MAX_IDS
                )
                conditions = [*conditions, *([] if ids is None else [{ID: {"$in": sorted(ids)}}])]
                is_first = False
            place = position_of(targets[-1], self._order)
            number = min(2 * number, max(number, MAX_BATCH))
        if has_unlinked and is_last:
            yield [_UNLINKED]

    async def _linked(
        self, targets: Sequence[Record], after: Conditions, limit: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield the records that link to targets, at most so many at a time.

        after: conditions on the records. If targets have too many records, they are divided.
        """
        key = self._foreign_key
        order = replace(self._own_key, stored_name=key), self._own_key
        pending = [targets] if targets else []
        while pending:
            some = pending.pop()
            linked = {key: {"$in": [target[ID] for target in some]}}
            found = await self._records.read(
                [*self._records.conditions, linked, *after], order, limit
            )
            if len(found) == limit and len(some) > 1:
                half = len(some) // 2
                pending += some[half:], some[:half]
                continue
            groups: dict[int | None, list[Record]] = {}
            for record in found:
                groups.setdefault(record.get(key), []).append(record)
            yield [
                {**record, RELATED: {self._name: target}}
                for target in some
                for record in groups.get(target[ID], ())
            ]
            after = ()
            if len(found) == limit:  # of one target
                after = beyond(self._own_key, found[-1][ID])
                pending.append(some)
