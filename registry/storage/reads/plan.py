"""Plans: how the records that a request lists are read, whatever its filters and its order name.

A plan whose filters and order one index serves reads as many records as it returns; others are
heavy. Filters and orders by fields of related resources are in `related`.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext

from registry.jsonapi.filtering import AllOf, Filter, conjuncts, names_related, related_filters
from registry.jsonapi.pagination import BY_ID, END, Order, Position
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.storage.reads.filters import finds_related, is_indexed
from registry.storage.reads.related import (
    MAX_BATCH,
    MAX_IDS,
    RECORDS_PER_RESULT,
    RelatedOrder,
    matching_ids,
    sorted_relationship,
    with_linked_ids,
)
from registry.storage.reads.selection import MAX_OFFSET, Selection, position_of
from registry.storage.reads.snapshot import Snapshot

_MAX_SORTED = 200
"""Records that are joined and sorted as a whole, which takes 5 ms."""

_FEW_IDS = 1_000
"""Ids of related resources that a small request may look up."""

_MAX_TOTAL_IDS = 500_000
"""Ids in the conditions of a total: each takes up to 18 bytes of a command of at most 16 MiB."""


class ReadPlan:
    """The records of a type that satisfy filters, in an order, in a snapshot.

    fields: the stored fields to return. key: what determines the records, beside the point in time.
    The methods raise PyMongoError, ExecutionTimeout after the time limit, or Overloaded.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        resource_type: ResourceType,
        filters: Sequence[Filter],
        order: Order,
        fields: tuple[str, ...],
    ) -> None:
        self.snapshot = snapshot
        self.resource_type = resource_type
        self.filters = tuple(conjuncts(filters))
        self.order = order
        self.key = resource_type, self.filters, order, fields
        self.is_by_id = order[0].stored_name == ID and not order[0].relationship
        self._fields = fields
        self._related = [part for part in self.filters if names_related(part)]
        own = [part for part in self.filters if not names_related(part)]
        is_range = self.is_by_id and not self.filters
        self._own = Selection(snapshot, resource_type, own, order, fields, is_range=is_range)
        unindexed = snapshot.reads.unindexed
        self._is_indexed = is_indexed(resource_type, self.filters, order, unindexed)

    def is_heavy(self, offset: int = 0) -> bool:
        """Whether it may read many more records than it returns, after so many others."""
        return not self._is_indexed or offset > MAX_OFFSET

    @asynccontextmanager
    async def admitted(self, *, is_heavy: bool) -> AsyncIterator[None]:
        """Admit the commands for a page or a total; MongoDB ends heavy ones with their caller."""
        bulkheads = self.snapshot.reads.bulkheads
        async with (
            bulkheads.heavy_requests if is_heavy else bulkheads.small_requests,
            self.snapshot.cancellable() if is_heavy else nullcontext(),
        ):
            yield

    async def follow(self) -> "ReadPlan":
        """Return the plan by ids instead of related resources, if indexes find few of these."""
        if not self._related or not finds_related(self._related, self.snapshot.reads.unindexed):
            return self
        async with self.snapshot.reads.bulkheads.small_requests:
            return await self._with_ids(_FEW_IDS)

    async def page(
        self, order: Order, size: int, position: Position = END, offset: int = 0
    ) -> list[Record]:
        """Return at most `size` records in an order, after a position and an offset."""
        plan = await self._with_ids(MAX_IDS)
        if not plan._is_batched(order):
            return await plan._own.after(plan._own.conditions, order, position, size, offset)
        records: list[Record] = []
        async with aclosing(plan._batches(order, position, min(offset + size, MAX_BATCH))) as found:
            async for batch in found:
                records += batch[offset:]
                offset = max(0, offset - len(batch))
                if len(records) >= size:
                    break
        return records[:size]

    async def first_by_id(self, start: int, size: int, offset: int) -> list[Record]:
        """Return the records from an id on in the order of the ids, after an offset."""
        condition = {ID: {"$lte" if self.order[0].descending else "$gte": start}}
        return await self._own.first([condition], self.order, size, offset)

    async def stream(self, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records in chunks of this size, the last of which may be shorter."""
        plan = await self._with_ids(MAX_IDS)
        if plan._is_batched(self.order):
            batches = plan._batches(self.order, END, size)
        else:
            batches = await plan._own.stream(size)
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
        related = sum(1 for part in self._related for _ in related_filters(part))
        plan = await self._with_ids(_MAX_TOTAL_IDS // related) if related else self
        if not plan._related:
            return await plan._own.count(limit)
        return sum([len(records) async for records in plan._batches(BY_ID, END, MAX_BATCH)])

    async def _with_ids(self, limit: int) -> "ReadPlan":
        """Return the plan by ids instead of related resources, where these are not too many."""
        if not self._related:
            return self
        filters = [await with_linked_ids(part, self._own, limit) for part in self.filters]
        return ReadPlan(self.snapshot, self.resource_type, filters, self.order, self._fields)

    def _is_batched(self, order: Order) -> bool:
        return bool(self._related) or sorted_relationship(order) is not None

    async def _batches(
        self, order: Order, position: Position, size: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position in batches, which may be empty.

        size: records that are needed.
        """
        async for records in self._candidates(order, position, size):
            if not self._related:
                yield records
                continue
            matching = await matching_ids(AllOf(tuple(self._related)), self._own, records)
            yield [record for record in records if record[ID] in matching]

    async def _candidates(
        self, order: Order, position: Position, size: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position, except that filters on related resources apply."""
        own, relationship = self._own, sorted_relationship(order)
        if relationship and await own.count(_MAX_SORTED + 1) > _MAX_SORTED:
            related_order = RelatedOrder(own, order, relationship, self._related)
            async for records in related_order.batches(position, size):
                yield records
            return
        if self._related:
            size = min(RECORDS_PER_RESULT * size, MAX_BATCH)
        while records := await own.after(own.conditions, order, position, size):
            yield records
            if len(records) < size:
                return
            position = position_of(records[-1], order)
            size = min(2 * size, MAX_BATCH)
