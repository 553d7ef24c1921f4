"""Plans whose filters or order name fields of related resources.

- Few related resources that match a filter become a condition on ids. If they are many, records
  are read in batches, and the filter is applied to each batch: by one query on the other side of
  each relationship. `$lookup` would look up more records than a page returns: MongoDB would take 40
  times the CPU time for a page, and twice as much for all records.
- Few records are joined with their targets and sorted as a whole. If they are many, the targets
  are read in their order, by an index, each batch with the records that link to them.
"""

from collections import defaultdict
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
from registry.storage.reads.plan import RELATED, Plan, position_of, sort_document
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import Conditions, Stage, conjunction, projection

MAX_BATCH = 1_000
"""Records, or targets, that are read at a time."""

MAX_IDS = 5_000
"""Ids in the condition of a page, whose records MongoDB sorts in 12 ms."""

_MAX_TOTAL_IDS = 500_000
"""Ids in the conditions of a total: each takes up to 18 bytes of a command of at most 16 MiB."""

_MAX_SORTED = 200
"""Records that are joined and sorted as a whole, which takes 5 ms."""

RECORDS_PER_RESULT = 10
"""Records read at a time per record needed, where a filter on related resources applies to them."""

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
        """Return the plan by ids instead of related resources, if these are few."""
        if not self._related:
            return self
        is_found = finds_related(self._related, self.snapshot.reads.unindexed)
        async with self._admitted(is_heavy=not is_found):
            return await self._with_ids(MAX_IDS)

    async def _page(self, order: Order, size: int, position: Position, offset: int) -> list[Record]:
        records: list[Record] = []
        needed = min(offset + size, MAX_BATCH)
        async with aclosing(self._batches(order, position, needed)) as batches:
            async for batch in batches:
                records += batch[offset:]
                offset = max(0, offset - len(batch))
                if len(records) >= size:
                    break
        return records[:size]

    async def stream(self, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records in chunks of this size, the last of which may be shorter."""
        records: list[Record] = []
        async with aclosing(self._batches(self.order, END, size)) as batches:
            async for batch in batches:
                records += batch
                while len(records) >= size:
                    yield records[:size]
                    del records[:size]
        if records:
            yield records

    async def _count(self, limit: int | None = None) -> int:
        if not self._related:
            return await super()._count(limit)
        related = sum(1 for part in self._related for _ in related_filters(part))
        plan = await self._with_ids(_MAX_TOTAL_IDS // related)
        if isinstance(plan, RelatedPlan) and plan._related:
            return sum([len(records) async for records in plan._batches(BY_ID, END, MAX_BATCH)])
        return await plan._count(limit)

    @cached_property
    def _related(self) -> list[Filter]:
        """The filters that name related resources."""
        return [part for part in self.filters if names_related(part)]

    async def _with_ids(self, limit: int) -> Plan:
        """Return the plan by ids instead of related resources, where these are not too many."""
        find = partial(_ids_of_all, self.snapshot, limit)
        filters = [await _by_ids(part, find) for part in self.filters]
        return plan_of(self.snapshot, self.resource_type, filters, self.order, self.fields)

    async def _batches(
        self, order: Order, position: Position, size: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position in batches, which may be empty.

        size: records that are needed.
        """
        relationship = sorted_relationship(order)
        if relationship and await super()._count(_MAX_SORTED + 1) > _MAX_SORTED:
            batches = RelatedOrder(self, order, relationship, self._related).batches(position, size)
        else:
            needed = RECORDS_PER_RESULT * size if self._related else size
            batches = self.read_batches(self.conditions, order, position, min(needed, MAX_BATCH))
        async for records in batches:
            yield await self._matching(records) if self._related and records else records

    async def _matching(self, records: list[Record]) -> list[Record]:
        """Return those records that satisfy the filters on related resources."""
        find = partial(_ids_among, self.snapshot, records)
        filters = [await _by_ids(part, find) for part in self._related]
        among = {ID: {"$in": [record[ID] for record in records]}}
        query = conjunction([among, *map(to_query, filters)])
        command = find_command(self.resource_type.collection, query, projection(()))
        matching = {record[ID] for record in await self.snapshot.run(command)}
        return [record for record in records if record[ID] in matching]

    async def read_batches(
        self, conditions: Conditions, order: Order, position: Position, size: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield the records that satisfy conditions, after a position."""
        while records := await self.read(conditions, order, size, position):
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


class RelatedOrder:
    """Reads the records of a plan in an order that has a `sorted_relationship`, by its targets.

    filters: on related resources; they may reduce the targets to read, but callers have to check
    each record. Records whose target does not exist are left out: no index of the targets has them.
    """

    def __init__(
        self,
        plan: RelatedPlan,
        order: Order,
        relationship: Relationship,
        filters: Iterable[Filter],
    ) -> None:
        self._plan = plan
        self._name, self._foreign_key = relationship.name, relationship.foreign_key
        self._own = order[-1:]
        parts = [
            part.part
            for part in filters
            if isinstance(part, Related) and part.relationship == relationship
        ]
        target = plan.snapshot.reads.graph[relationship.target]
        target_order = tuple(replace(key, relationship=None) for key in order[:-1])
        self._targets = Plan(plan.snapshot, target, parts, target_order)

    async def batches(self, position: Position, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position in batches. size: records that are needed."""
        number, after = size + _EXTRA_TARGETS, position[-1:]
        async for targets in self._target_batches(position[:-1], number):
            async for records in self._linked(targets, after, number):
                yield records
            after = END

    async def _target_batches(self, place: Position, number: int) -> AsyncGenerator[list[Record]]:
        """Yield the target at a place by itself, then all targets after it in batches.

        If the first batch has too few records, only targets that have any are read after it,
        unless there are many of these.
        """
        plan, targets, is_last = self._plan, self._targets, self._own[0].descending
        has_unlinked, conditions = not targets.filters, targets.conditions
        begins_unlinked = place[-1] is None if place else not is_last
        if begins_unlinked:
            if place or has_unlinked:
                yield [_UNLINKED]
            if is_last:
                return
            place = END
        elif place:
            names = sort_document(targets.order)
            there = [{name: {"$eq": value}} for name, value in zip(names, place, strict=True)]
            yield await targets.read(there, targets.order, 1)
        is_first = True
        while batch := await targets.read(conditions, targets.order, number, place):
            yield batch
            if len(batch) < number:
                break
            if is_first:
                ids = await _linked_ids(
                    plan.snapshot, plan.resource_type, plan.conditions, self._foreign_key, MAX_IDS
                )
                conditions = [*conditions, *([] if ids is None else [{ID: {"$in": sorted(ids)}}])]
                is_first = False
            place = position_of(batch[-1], targets.order)
            number = min(2 * number, max(number, MAX_BATCH))
        if has_unlinked and is_last:
            yield [_UNLINKED]

    async def _linked(
        self, targets: Sequence[Record], after: Position, number: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield the records that link to targets; those of a single one, after a position.

        If targets have too many records for one command, they are divided.
        """
        plan, key, limit = self._plan, self._foreign_key, RECORDS_PER_RESULT * number
        if len(targets) <= 1:
            for target in targets:
                conditions = [*plan.conditions, {key: {"$eq": target[ID]}}]
                async for records in plan.read_batches(conditions, self._own, after, number):
                    yield [{**record, RELATED: {self._name: target}} for record in records]
            return
        conditions = [*plan.conditions, {key: {"$in": [target[ID] for target in targets]}}]
        order = (replace(self._own[0], stored_name=key), *self._own)
        found = await plan.read(conditions, order, limit)
        if len(found) == limit:
            half = len(targets) // 2
            for some in (targets[:half], targets[half:]):
                async for records in self._linked(some, END, number):
                    yield records
            return
        linked: dict[int, list[Record]] = defaultdict(list)
        for record in found:
            linked[record[key]].append(record)
        yield [
            {**record, RELATED: {self._name: target}}
            for target in targets
            for record in linked[target[ID]]
        ]


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


async def _ids_of_all(snapshot: Snapshot, limit: int, related: Related) -> set[int] | None:
    """Return the values that link to what satisfies a condition; None for more than `limit`."""
    _, linking = _link_fields(related.relationship)
    conditions = [to_query(related.part) or {linking: {"$ne": None}}]
    return await _linked_ids(snapshot, related.target, conditions, linking, limit)


async def _ids_among(snapshot: Snapshot, records: Sequence[Record], related: Related) -> set[int]:
    """Return the values by which some of the records are linked to what satisfies a condition."""
    field, linking = _link_fields(related.relationship)
    keys = {record[field] for record in records if record.get(field) is not None}
    stages: list[Stage] = [
        {"$match": {"$and": [{linking: {"$in": [*keys]}}, to_query(related.part)]}},
        {"$group": {ID: f"${linking}"}},  # many may link to the same record
    ]
    found = await snapshot.run(aggregate_command(related.target.collection, stages))
    return {group[ID] for group in found}


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
    if found[0]["count"] > limit:
        return None
    return {id_ for id_ in found[0]["ids"] if id_ is not None}


def _link_fields(relationship: Relationship) -> tuple[str, str]:
    """Return the stored field of records that links them to related ones, and the latter's."""
    key = relationship.foreign_key
    return (ID, key) if relationship.to_many else (key, ID)
