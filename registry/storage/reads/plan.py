"""Plans: how the records of one type that satisfy filters are read in an order.

- A plan whose filters and order one index serves reads as many records as it returns; others are
  heavy.
- A page begins at a position, by a range of an index for each key of the order, or it skips
  records.
- If an index covers only the first key of an order, that key of the page's last record is found
  first. MongoDB then sorts only the records up to this key.
- A search in texts is done in the index of the attribute.
- Fields of related resources that an order names are joined. Filters by such fields, and orders
  that begin with them, are in `related`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import cached_property
from typing import Any

from pymongo import ASCENDING, DESCENDING

from registry.jsonapi.filtering import Filter, conjuncts, names_related
from registry.jsonapi.pagination import END, Key, Order, Position
from registry.model.record import ID, MAX_ID, Record
from registry.model.resource_type import ResourceType
from registry.storage.counters import IdCounter
from registry.storage.mongo.read_commands import Command, aggregate_command, find_command
from registry.storage.reads.filters import is_index_order, is_indexed, searched_field, to_query
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import ONE_BATCH, Conditions, Stage, conjunction, projection

MAX_OFFSET = 1_000
"""Index keys that a page by number may skip, or a total may count, before it is heavy."""

RELATED = "_related"
"""The field of a record with the sort fields of related resources, by relationship."""

_TARGET = "_target"
"""The field with the record of a related resource within the pipeline."""


def sort_field(key: Key) -> str:
    """Return the path of the field that a key of an order compares."""
    prefix = f"{RELATED}.{key.relationship.name}." if key.relationship else ""
    return prefix + key.stored_name


def sort_document(order: Order) -> dict[str, int]:
    """Return an order as MongoDB takes it."""
    return {sort_field(key): DESCENDING if key.descending else ASCENDING for key in order}


def position_of(record: Record, order: Order) -> Position:
    """Return the values of the sort keys in a record; None for missing ones."""
    return tuple(_value_of(record, key) for key in order)


def ranges(order: Order, position: Position) -> Iterator[tuple[Order, Conditions]]:
    """Yield the ranges of indexes that have all records after a position, one after another.

    Each is an order and its conditions. Records after a position share its first value and follow
    in the other keys, or have a greater first value. For one `$or`, far from the start, MongoDB
    takes 4 times the CPU time, the service 1.8 times.
    """
    if not position:
        yield order, []
        return
    (key, *rest), (value, *values) = order, position
    path = sort_field(key)
    if rest:
        for inner, conditions in ranges(tuple(rest), tuple(values)):
            yield inner, [{path: {"$eq": value}}, *conditions]
    # MongoDB compares `$gt` and `$lt` within one type; null, which sorts first, is another type.
    if value is not None:
        yield order, [{path: {"$lt" if key.descending else "$gt": value}}]
        if key.descending and path != ID:
            yield order, [{path: {"$eq": None}}]
    elif not key.descending:
        yield order, [{path: {"$ne": None}}]


class Plan:
    """The records of a type that satisfy filters, in an order, in a snapshot.

    order: the orders of its pages name no other fields of related resources. fields: the stored
    fields to return. key: plans with equal keys have the same records at the same point in time.
    `follow`, `page`, `total` and `counter` take slots. Methods raise PyMongoError, ExecutionTimeout
    after the time limit, or Overloaded.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        resource_type: ResourceType,
        filters: Sequence[Filter],
        order: Order,
        fields: tuple[str, ...] = (),
    ) -> None:
        self.snapshot = snapshot
        self.resource_type = resource_type
        self.filters = tuple(conjuncts(filters))
        self.order = order
        self.fields = fields
        self.key = resource_type, self.filters, order, fields
        self.is_by_id = order[0].stored_name == ID and not order[0].relationship
        # All records in the order of the ids: requests read them together.
        self._is_range = self.is_by_id and not self.filters

    @cached_property
    def conditions(self) -> Conditions:
        """MongoDB conditions, built when they are needed: those of long filters are expensive.

        Without those on related resources.
        """
        own = [part for part in self.filters if not names_related(part)]
        return [condition for condition in map(to_query, own) if condition]

    def is_heavy(self, offset: int = 0) -> bool:
        """Whether it may read or skip many more records than it returns. offset: those to skip."""
        return offset > MAX_OFFSET or not self._is_indexed

    @cached_property
    def _is_indexed(self) -> bool:
        unindexed = self.snapshot.reads.unindexed
        return is_indexed(self.resource_type, self.filters, self.order, unindexed)

    @asynccontextmanager
    async def _admitted(self, *, is_heavy: bool) -> AsyncIterator[None]:
        """Admit commands; MongoDB ends heavy ones with their caller."""
        bulkheads = self.snapshot.reads.bulkheads
        async with (
            bulkheads.heavy_requests if is_heavy else bulkheads.small_requests,
            self.snapshot.cancellable() if is_heavy else nullcontext(),
        ):
            yield

    async def follow(self) -> "Plan":
        """Return the plan by ids instead of related resources, if these are few."""
        return self

    async def page(
        self, order: Order, size: int, position: Position = END, offset: int = 0
    ) -> list[Record]:
        """Return at most `size` records in an order, after a position and an offset."""
        async with self._admitted(is_heavy=self.is_heavy(offset)):
            return await self._page(order, size, position, offset)

    async def total(self) -> int:
        """Return how many records there are.

        Up to MAX_OFFSET index keys are counted as a small request, as for most totals; more as a
        heavy one.
        """
        if not self.is_heavy():
            async with self._admitted(is_heavy=False):
                total = await self._count(MAX_OFFSET + 1)
            if total <= MAX_OFFSET:
                return total
        async with self._admitted(is_heavy=True):
            return await self._count()

    async def counter(self) -> IdCounter | None:
        """Return the counter of the type if it counts these records and no others, else None.

        Always None for revisions: the counter does not know which have expired.
        """
        if self.filters or self.resource_type.subject:
            return None
        async with self._admitted(is_heavy=False):
            reads, snapshot = self.snapshot.reads, self.snapshot
            counter, snapshot.time = await reads.read_counter(self.resource_type, snapshot.time)
        return counter

    async def stream(self, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records in chunks of this size, the last of which may be shorter."""
        command = self._command(self.conditions, self.order, batch_size=size)
        # A range scan takes time proportional to its result.
        is_limited = not self._is_range
        chunks = await self.snapshot.stream(command, size, is_limited=is_limited)
        async with aclosing(chunks):
            async for records in chunks:
                yield records

    async def _page(self, order: Order, size: int, position: Position, offset: int) -> list[Record]:
        return await self.read(self.conditions, order, size, position, offset)

    async def _count(self, limit: int | None = None) -> int:
        """Return how many records there are, at most `limit`."""
        stages: list[Stage] = [{"$match": conjunction(self.conditions)}]
        if limit is not None:
            by_index: list[Stage] = [] if self.conditions else [{"$sort": {ID: 1}}]
            stages += [*by_index, {"$limit": limit}]
        stages.append({"$count": "total"})
        found = await self.snapshot.run(aggregate_command(self.resource_type.collection, stages))
        return found[0]["total"] if found else 0

    async def read(
        self,
        conditions: Conditions,
        order: Order,
        size: int,
        position: Position = END,
        offset: int = 0,
    ) -> list[Record]:
        """Return the first records that satisfy conditions, after a position and an offset.

        offset: from the beginning of the order, or from a position in the order of the ids.
        """
        records: list[Record] = []
        for following, bounds in ranges(order, position):
            if (left := size - len(records)) > 0:
                records += await self._first([*conditions, *bounds], following, left, offset)
        return records

    async def _first(
        self, conditions: Conditions, order: Order, size: int, offset: int
    ) -> list[Record]:
        """Return the first records that satisfy conditions, after an offset."""
        snapshot = self.snapshot
        if self._is_range and offset <= MAX_OFFSET:
            command = self._command(conditions, order, size, offset)
            records, snapshot.time = await snapshot.reads.read_range(command, snapshot.time)
            return records
        is_joined = order[0].relationship or _on_related(conditions)
        if not is_joined and not is_index_order(order):
            # To sort all takes 2.4 times the CPU time of mongod.
            skipped = min(offset + size - 1, MAX_ID)
            last = await snapshot.run(self._command(conditions, order[:1], 1, skipped))
            bounds = _up_to(order[0], _value_of(last[0], order[0])) if last else []
            conditions = [*conditions, *bounds]
        return await snapshot.run(self._command(conditions, order, size, offset))

    def _command(
        self,
        conditions: Conditions,
        order: Order,
        size: int = 0,
        offset: int = 0,
        batch_size: int = ONE_BATCH,
    ) -> Command:
        """Return the command for records in an order. size: 0 for no limit.

        Records are joined with the targets whose fields the order or the conditions name.
        """
        related = _on_related(conditions)
        name = self.resource_type.collection
        sort = sort_document(order)
        # The values of the keys as well, for cursors.
        sort_fields = (sort_field(key).partition(".")[0] for key in self.order)
        shown = projection([*self.fields, *sort_fields])
        options = self._hint(conditions) | {"allowDiskUse": True}
        if not related and not any(key.relationship for key in order):
            options |= {"sort": sort, "skip": offset, "limit": size, "batchSize": batch_size}
            return find_command(name, conjunction(conditions), shown, **options)
        own = [condition for condition in conditions if condition not in related]
        stages: list[Stage] = [
            {"$match": conjunction(own)},
            *self._lookups(),
            {"$match": conjunction(related)},
            {"$sort": sort},
            {"$skip": offset},
            *([{"$limit": size}] if size else []),
            {"$project": shown},
        ]
        return aggregate_command(name, stages, batch_size, **options)

    def _hint(self, conditions: Conditions) -> dict[str, Any]:
        """Return the option that names the index for a search in texts, if it is built."""
        field = searched_field(conditions)
        is_built = self.resource_type.type not in self.snapshot.reads.unindexed
        if field not in self.resource_type.indexed_fields or not is_built:
            return {}
        return {"hint": {field: ASCENDING, ID: ASCENDING}}

    def _lookups(self) -> Iterator[Stage]:
        """Yield the stages that add the sort fields of each related resource."""
        for relationship in {key.relationship for key in self.order if key.relationship}:
            fields = [key.stored_name for key in self.order if key.relationship == relationship]
            # With a pipeline of its own, a `$lookup` takes seven times as long.
            lookup = {
                "from": self.snapshot.reads.graph[relationship.target].collection,
                "localField": relationship.foreign_key,
                "foreignField": ID,
                "as": _TARGET,
            }
            yield {"$lookup": lookup}
            values = {field: {"$first": f"${_TARGET}.{field}"} for field in fields}
            yield {"$set": {f"{RELATED}.{relationship.name}": values, _TARGET: "$$REMOVE"}}


def _on_related(conditions: Conditions) -> Conditions:
    """Return the conditions on fields of related resources."""
    return [
        condition for condition in conditions if any(path.startswith(RELATED) for path in condition)
    ]


def _value_of(record: Record, key: Key) -> Any:
    value: Any = record
    for name in sort_field(key).split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _up_to(key: Key, value: Any) -> Conditions:
    """Return the condition for records up to and including this value; empty for all."""
    path = sort_field(key)
    if key.descending:
        return [] if value is None else [{path: {"$gte": value}}]
    return [{path: {"$eq": None} if value is None else {"$not": {"$gt": value}}}]
