"""Collections sorted or filtered by attributes of related resources.

Few records are joined and sorted as a whole; few related records become a condition on ids. Many
are read in batches in the order of an index, each with the records on the other side of the
relationship; matching records are kept until the page is full. In an order that no index serves,
such as `owner.last_name,serial`, the database sorts, by `$lookup` and `$sort`.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import assert_never

from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    conjuncts,
    names_related,
)
from registry.jsonapi.pagination import BY_ID, END, Order, Position
from registry.model.attributes import Operator
from registry.model.record import ID, Record
from registry.model.resource_type import Relationship, ResourceType
from registry.storage.mongo.read_commands import aggregate_command, find_command
from registry.storage.reads.collection_query import (
    RELATED,
    CollectionQuery,
    beyond,
    position_of,
    sort_field,
)
from registry.storage.reads.filters import to_query
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import Conditions, Stage, conjunction

_MAX_IDS = 10_000
"""Ids in the condition of a page, whose records MongoDB sorts in 25 ms."""

_MAX_SORTED = 200
"""Records that are joined and sorted as a whole, which takes 5 ms."""

MAX_BATCH = 1_000
"""Records, or targets, that are read at a time."""

_RECORDS_PER_RESULT = 10
"""Records read at a time per record needed."""

_EXTRA_TARGETS = 16
"""Targets in the first batch beyond the records that are needed: some targets have none."""

_UNLINKED: Record = {ID: None}
"""Stands in for a missing target. All its fields are null, so it sorts first or last."""


async def read_page(
    query: CollectionQuery, order: Order, size: int, position: Position = END, offset: int = 0
) -> list[Record]:
    """Return at most `size` records in an order, after a position and an offset.

    query: is admitted. position: END for the start. Raises PyMongoError.
    """
    if not query.names_related and _sorted_relationship(order) is None:
        return await query.read_after(query.conditions, order, position, size, offset)
    records: list[Record] = []
    needed = min(offset + size, MAX_BATCH)
    async with aclosing(read_batches(query, order, position, needed)) as batches:
        async for batch in batches:
            records += batch[offset:]
            offset = max(0, offset - len(batch))
            if len(records) >= size:
                break
    return records[:size]


async def read_batches(
    query: CollectionQuery,
    order: Order,
    position: Position = END,
    size: int = MAX_BATCH,
    *,
    is_counted: bool = False,
) -> AsyncGenerator[list[Record]]:
    """Yield all records after a position in batches, which may be empty.

    query: is admitted. size: records that are needed. is_counted: whether more related records
    than _MAX_IDS are known to match; otherwise they are counted if the first batch does not
    suffice, as counting takes longer than a batch. Raises PyMongoError.
    """
    parts = list(conjuncts(query.filters))
    related = [part for part in parts if names_related(part)]
    base = query
    if related:
        base = query.with_filters([part for part in parts if not names_related(part)])
    last = END
    async for records in _sorted(base, order, position, size, related):
        if not related:
            yield records
            continue
        if last and not is_counted:
            is_counted, by_ids = True, await with_linked_ids(query, _MAX_IDS)
            if by_ids.filters != query.filters:
                async for batch in read_batches(by_ids, order, last, size, is_counted=True):
                    yield batch
                return
        base.require_valid(records)
        matching = await _matching_ids(base, AllOf(tuple(related)), records)
        yield [record for record in records if record[ID] in matching]
        if records:
            last = position_of(records[-1], order)


async def _sorted(
    query: CollectionQuery, order: Order, position: Position, size: int, filters: Sequence[Filter]
) -> AsyncGenerator[list[Record]]:
    """Yield all records after a position, except that filters on related resources may apply."""
    relationship = _sorted_relationship(order)
    if relationship and await query.count(_MAX_SORTED + 1) > _MAX_SORTED:
        related_order = _RelatedOrder(query, order, relationship, filters)
        async for records in related_order.batches(position, size):
            yield records
        return
    size = min(_RECORDS_PER_RESULT * size, MAX_BATCH) if filters else size
    while records := await query.read_after(query.conditions, order, position, size):
        yield records
        if len(records) < size:
            return
        position = position_of(records[-1], order)
        size = min(2 * size, MAX_BATCH)


async def read_chunks(query: CollectionQuery, size: int) -> AsyncGenerator[list[Record]]:
    """Yield all records of a query in batches of this size, the last of which may be shorter."""
    if not query.names_related and _sorted_relationship(query.order) is None:
        batches = await query.batches(size)
    else:
        batches = read_batches(query, query.order, size=size)
    records: list[Record] = []
    async with aclosing(batches):
        async for batch in batches:
            records += batch
            while len(records) >= size:
                yield records[:size]
                del records[:size]
    if records:
        yield records


def _sorted_relationship(order: Order) -> Relationship | None:
    """Return the to-one relationship of an order that sorts by its targets, then by id.

    None for other orders, such as one with an own field after a related one.
    """
    *keys, _ = order
    relationships = {key.relationship for key in keys}
    if len(relationships) != 1 or len({key.descending for key in order}) > 1:
        return None
    return keys[-1].relationship if keys[-1].stored_name == ID else None


class _RelatedOrder:
    """Reads the records of a query in an order that has a `_sorted_relationship`.

    query: runs the commands; it has no filters on related resources. filters: on related resources;
    they may reduce the targets to read, but callers have to check each record.

    Records whose target does not exist are left out: they are in no index of the targets.
    """

    def __init__(
        self,
        query: CollectionQuery,
        order: Order,
        relationship: Relationship,
        filters: Iterable[Filter],
    ) -> None:
        self._query = query
        self._name, self._foreign_key = relationship.name, relationship.foreign_key
        self._own_key = order[-1]
        self._order = tuple(replace(key, relationship=None) for key in order[:-1])
        parts = [
            part.part
            for part in conjuncts(filters)
            if isinstance(part, Related) and part.relationship == relationship
        ]
        target = query.snapshot.reads.graph[relationship.target]
        self._targets = query.on_targets(target, parts, self._order)

    async def batches(self, position: Position, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position in batches, the first probably of `size` or more.

        Raises PyMongoError.
        """
        limit = _RECORDS_PER_RESULT * (size + _EXTRA_TARGETS)
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
            there = [{one: {"$eq": value}} for one, value in zip(fields, place, strict=True)]
            yield await self._targets.read_first(there, self._order, 1)
        elif has_unlinked and not is_last:
            yield [_UNLINKED]
        query, key, number = self._query, self._foreign_key, size + _EXTRA_TARGETS
        keys = [{ID: one[key]} for one in query.conditions if one.keys() == {key}]
        conditions = [*self._targets.conditions, *keys]
        targets = await self._targets.read_after(conditions, self._order, place, number)
        yield targets
        if len(targets) == number:
            ids = await _read_linked_ids(
                query.snapshot, query.resource_type, query.conditions, key, _MAX_IDS
            )
            conditions += [] if ids is None else [{ID: {"$in": sorted(ids)}}]
        while len(targets) == number:
            place = position_of(targets[-1], self._order)
            number = min(2 * number, max(number, MAX_BATCH))
            targets = await self._targets.read_after(conditions, self._order, place, number)
            yield targets
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
        linked = {key: {"$in": [target[ID] for target in targets]}}
        while targets:
            conditions = [*self._query.conditions, linked, *after]
            found = await self._query.read(conditions, order, limit)
            if len(found) == limit and len(targets) > 1:
                half = len(targets) // 2
                for some in (targets[:half], targets[half:]):
                    async for records in self._linked(some, after, limit):
                        yield records
                return
            self._query.require_valid(found)
            groups: dict[int | None, list[Record]] = {}
            for record in found:
                groups.setdefault(record.get(key), []).append(record)
            yield [
                {**record, RELATED: {self._name: target}}
                for target in targets
                for record in groups.get(target[ID], ())
            ]
            if len(found) < limit:
                return
            after = beyond(self._own_key, found[-1][ID])


async def with_linked_ids(query: CollectionQuery, limit: int) -> CollectionQuery:
    """Return the query with conditions on ids in place of those on related resources.

    A condition that more related records match than `limit` is kept. Raises PyMongoError, or
    ExecutionTimeout after the time limit.
    """
    return query.with_filters([await _with_linked_ids(one, query, limit) for one in query.filters])


async def _with_linked_ids(part: Filter, query: CollectionQuery, limit: int) -> Filter:
    match part:
        case AllOf(parts) | AnyOf(parts):
            return type(part)(tuple([await _with_linked_ids(one, query, limit) for one in parts]))
        case Not(negated):
            return Not(await _with_linked_ids(negated, query, limit))
        case Related(relationship, target):
            field, linking = _link_fields(relationship)
            targets = query.on_targets(target, [part.part], BY_ID)
            conditions = targets.conditions or [{linking: {"$ne": None}}]
            ids = await _read_linked_ids(query.snapshot, target, conditions, linking, limit)
            if ids is not None:
                return Condition(field, Operator.IN, tuple(sorted(ids)))
    return part


async def _read_linked_ids(
    snapshot: Snapshot,
    resource_type: ResourceType,
    conditions: Conditions,
    field: str,
    limit: int,
) -> set[int] | None:
    """Return the ids in a field of the records of a type that satisfy conditions.

    None if more records than `limit` do, or, without conditions, if there are more ids. Raises
    PyMongoError, or ExecutionTimeout after the time limit.
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
    return _ids_among(found[0]["ids"])


async def _matching_ids(
    query: CollectionQuery, part: Filter, records: Sequence[Record]
) -> Collection[int]:
    """Return the ids of the records, all valid, that satisfy a filter. Raises PyMongoError."""
    ids = [record[ID] for record in records]
    match part:
        case AllOf(parts):
            for one in parts:
                matching = await _matching_ids(query, one, records)
                records = [record for record in records if record[ID] in matching]
            return {record[ID] for record in records}
        case AnyOf(parts):
            return {id_ for one in parts for id_ in await _matching_ids(query, one, records)}
        case Not(negated):
            return set(ids).difference(await _matching_ids(query, negated, records))
        case Related(relationship, target, part):
            field, linking = _link_fields(relationship)
            keys = _ids_among(record.get(field) for record in records)
            linked = await _matching_values(query.snapshot, target, linking, keys, part)
            return {record[ID] for record in records if record.get(field) in linked}
        case Condition():
            return await _matching_values(query.snapshot, query.resource_type, ID, ids, part)
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
    # As a `$group` stage, which would leave out duplicates, it takes twice the CPU time.
    query = {"$and": [{field: {"$in": list(values)}}, to_query(part)]}
    shown = {ID: field == ID, field: True}
    found = await snapshot.run(find_command(resource_type.collection, query, shown))
    return _ids_among(record[field] for record in found)


def _ids_among(values: Iterable[object]) -> set[int]:
    """Return the values that are ids: null and those of invalid records link to no resource."""
    return {value for value in values if isinstance(value, int)}


def _link_fields(relationship: Relationship) -> tuple[str, str]:
    """Return the stored field of records that links them to related ones, and the latter's."""
    key = relationship.foreign_key
    return (ID, key) if relationship.to_many else (key, ID)
