"""Plans whose filters or order name fields of related resources.

- Few related resources that match a filter become a condition on ids. If they are many, records
  are read in batches, and the filter is applied to each batch: by one query on the other side of
  each relationship. By `$lookup`, MongoDB takes 40 times the CPU time for a page, as it looks up
  more records than it returns, and twice for all.
- Few records are joined with their targets and sorted as a whole. If they are many, the targets
  are read in their order, by an index, each batch with the records that link to them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeAlias

from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    names_related,
    related_filters,
)
from registry.jsonapi.pagination import BY_ID, END, Order, Position
from registry.model.attributes import Operator
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage.mongo.read_commands import aggregate_command, find_command
from registry.storage.reads.filters import finds_related, to_query
from registry.storage.reads.plan import RELATED, Plan, beyond, position_of, sort_field
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import Conditions, Stage, conjunction, projection

MAX_BATCH = 1_000
"""Records, or targets, that are read at a time."""

MAX_IDS = 5_000
"""Ids in the condition of a page, whose records MongoDB sorts in 12 ms."""

_FEW_IDS = 1_000
"""Ids of related resources that a small request may look up."""

_MAX_TOTAL_IDS = 500_000
"""Ids in the conditions of a total: each takes up to 18 bytes of a command of at most 16 MiB."""

_MAX_SORTED = 200
"""Records that are joined and sorted as a whole, which takes 5 ms."""

RECORDS_PER_RESULT = 10
"""Records read at a time per record needed, where others follow or a filter applies to them."""

_EXTRA_TARGETS = 16
"""Targets in the first batch beyond the records that are needed: some targets have none."""

_UNLINKED: Record = {ID: None}
"""Stands in for a missing target. All its fields are null, so it sorts first or last."""


_FindIds: TypeAlias = Callable[[Related], Awaitable[set[int] | None]]
"""Returns the values of the field that links to what satisfies a condition; None for too many."""


def plan_of(
    snapshot: Snapshot,
    resource_type: ResourceType,
    filters: Sequence[Filter],
    order: Order,
    fields: tuple[str, ...],
) -> Plan:
    """Return the plan for filters and an order that may name related resources."""
    is_related = any(map(names_related, filters)) or sorted_relationship(order)
    cls = RelatedPlan if is_related else Plan
    return cls(snapshot, resource_type, filters, order, fields)


class RelatedPlan(Plan):
    """A plan whose filters, or the beginning of whose order, name related resources."""

    async def follow(self) -> Plan:
        """Return the plan by ids instead of related resources, if indexes find few of these."""
        if not self._related or not finds_related(self._related, self.snapshot.reads.unindexed):
            return self
        async with self.admitted(is_heavy=False):
            return await self._with_ids(_FEW_IDS)

    async def page(
        self, order: Order, size: int, position: Position = END, offset: int = 0
    ) -> list[Record]:
        """Return at most `size` records in an order, after a position and an offset."""
        plan = await self._with_ids(MAX_IDS)
        if not isinstance(plan, RelatedPlan):
            return await plan.page(order, size, position, offset)
        records: list[Record] = []
        batches = plan._batches(order, position, min(offset + size, MAX_BATCH))
        async with aclosing(batches):
            async for batch in batches:
                records += batch[offset:]
                offset = max(0, offset - len(batch))
                if len(records) >= size:
                    break
        return records[:size]

    async def stream(self, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records in chunks of this size, the last of which may be shorter."""
        plan = await self._with_ids(MAX_IDS)
        batches = (
            plan._batches(self.order, END, size)
            if isinstance(plan, RelatedPlan)
            else plan.stream(size)
        )
        records: list[Record] = []
        async with aclosing(batches):
            async for batch in batches:
                records += batch
                while len(records) >= size:
                    yield records[:size]
                    del records[:size]
        if records:
            yield records

    async def count(self, limit: int | None = None) -> int:
        """Return how many records there are, at most `limit`."""
        if not self._related:
            return await super().count(limit)
        related = sum(1 for part in self._related for _ in related_filters(part))
        plan = await self._with_ids(_MAX_TOTAL_IDS // related)
        if isinstance(plan, RelatedPlan) and plan._related:
            return sum([len(records) async for records in plan._batches(BY_ID, END, MAX_BATCH)])
        return await plan.count(limit)

    @cached_property
    def _related(self) -> list[Filter]:
        """The filters that name related resources."""
        return [part for part in self.filters if names_related(part)]

    async def _with_ids(self, limit: int) -> Plan:
        """Return the plan by ids instead of related resources, where these are not too many."""
        if not self._related:
            return self
        find = partial(_few_linked, self.snapshot, limit)
        filters = [await _by_ids(part, find) for part in self.filters]
        return plan_of(self.snapshot, self.resource_type, filters, self.order, self.fields)

    async def _batches(
        self, order: Order, position: Position, size: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position in batches, which may be empty.

        size: records that are needed.
        """
        async for records in self._candidates(order, position, size):
            yield await self._matching(records) if self._related and records else records

    async def _matching(self, records: list[Record]) -> list[Record]:
        """Return those records that satisfy the filters on related resources."""
        find, others = partial(_linked_among, self.snapshot, records), list[Filter]()
        for part in self._related:
            if isinstance(part, Related):
                (field, _), values = _link_fields(part.relationship), await find(part)
                records = [record for record in records if record.get(field) in values]
            else:
                others.append(await _by_ids(part, find))
        if not others:
            return records
        among = {ID: {"$in": [record[ID] for record in records]}}
        query = conjunction([among, *map(to_query, others)])
        command = find_command(self.resource_type.collection, query, projection(()))
        matching = {record[ID] for record in await self.snapshot.run(command)}
        return [record for record in records if record[ID] in matching]

    async def _candidates(
        self, order: Order, position: Position, size: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position, except that filters on related resources apply."""
        relationship = sorted_relationship(order)
        if relationship and await super().count(_MAX_SORTED + 1) > _MAX_SORTED:
            related_order = RelatedOrder(self, order, relationship, self._related)
            async for records in related_order.batches(position, size):
                yield records
            return
        if self._related:
            size = min(RECORDS_PER_RESULT * size, MAX_BATCH)
        while records := await self.after(self.conditions, order, position, size):
            yield records
            if len(records) < size:
                return
            position = position_of(records[-1], order)
            size = min(2 * size, MAX_BATCH)


def sorted_relationship(order: Order) -> Relationship | None:
    """Return the to-one relationship of an order that sorts by its targets, then by id.

    None for other orders, such as one with an own field after a related one.
    """
    *keys, _ = order
    relationships = {key.relationship for key in keys}
    if len(relationships) != 1 or len({key.descending for key in order}) > 1:
        return None
    return keys[-1].relationship if keys[-1].stored_name == ID else None


async def _by_ids(part: Filter, find: _FindIds) -> Filter:
    """Return a filter with conditions on ids in place of those on related resources."""
    match part:
        case AllOf(parts) | AnyOf(parts):
            return type(part)(tuple([await _by_ids(inner, find) for inner in parts]))
        case Not(negated):
            return Not(await _by_ids(negated, find))
        case Related(relationship):
            if (ids := await find(part)) is not None:
                field, _ = _link_fields(relationship)
                return Condition(field, Operator.IN, tuple(sorted(ids)))
    return part


async def _few_linked(snapshot: Snapshot, limit: int, related: Related) -> set[int] | None:
    """Return the values that link to what satisfies a condition; None for more than `limit`."""
    _, linking = _link_fields(related.relationship)
    conditions = [to_query(related.part) or {linking: {"$ne": None}}]
    return await _linked_ids(snapshot, related.target, conditions, linking, limit)


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


async def _linked_among(
    snapshot: Snapshot, records: Sequence[Record], related: Related
) -> set[int]:
    """Return the values by which some of the records are linked to what satisfies a condition."""
    field, linking = _link_fields(related.relationship)
    keys = _not_null(record.get(field) for record in records)
    query = {"$and": [{linking: {"$in": [*keys]}}, to_query(related.part)]}
    collection = related.target.collection
    command = find_command(collection, query, projection(()))
    if linking != ID:  # many may link to the same record
        stages: list[Stage] = [{"$match": query}, {"$group": {ID: f"${linking}"}}]
        command = aggregate_command(collection, stages)
    return {found[ID] for found in await snapshot.run(command)}


def _not_null(values: Iterable[int | None]) -> set[int]:
    """Return the ids among the values of a link: null links to no resource."""
    return {value for value in values if value is not None}


def _link_fields(relationship: Relationship) -> tuple[str, str]:
    """Return the stored field of records that links them to related ones, and the latter's."""
    key = relationship.foreign_key
    return (ID, key) if relationship.to_many else (key, ID)


class RelatedOrder:
    """Reads the records of a plan in an order that has a `sorted_relationship`.

    filters: on related resources; they may reduce the targets to read, but callers have to check
    each record. Records whose target does not exist are left out: no index of the targets has them.
    """

    def __init__(
        self,
        records: Plan,
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
        self._targets = Plan(records.snapshot, target, parts, self._order)

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
