"""Queries on one collection: filtered, sorted, with a limit and an offset."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from functools import cached_property, partial

from motor.motor_asyncio import AsyncIOMotorCommandCursor
from pymongo import ASCENDING, DESCENDING

from registry.jsonapi.cursors import END
from registry.jsonapi.filtering import Filter
from registry.jsonapi.pagination import NumberedPage, Page, Window
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import BY_ID, Order
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.settings import Settings
from registry.storage.batching import Coalescer
from registry.storage.bulkheads import Bulkheads
from registry.storage.reads.bounded_sorts import find_after, find_first
from registry.storage.reads.commands import Command, Commands, PointInTime, Session
from registry.storage.reads.filter_queries import all_of, match
from registry.storage.reads.join_reads import JoinReads
from registry.storage.reads.nested_loop_joins import NestedLoopJoin
from registry.storage.reads.query_cost import MAX_OFFSET, is_indexed, is_narrow
from registry.storage.reads.range_scans import RangeQuery, RangeScans
from registry.storage.reads.sort_keys import (
    RELATED,
    Conditions,
    position_of,
    sort_document,
    sort_field,
    split,
)
from registry.storage.records import ONE_BATCH, Stage
from registry.storage.visible_fields import fields_of, only

_TARGET = "_target"
"""The field with the record of a related resource within the pipeline."""

_MAX_CALLERS = 256
"""Requests that share the result of one page."""


class ReadContext:
    """What all collection queries of one database share.

    seconds: the time limit of a query. total_seconds: that of a heavy page with its wait.
    range_scans, pages, bulkheads: batching, coalescing and the limits on queries in progress.
    """

    def __init__(
        self, commands: Commands, graph: Graph, settings: Settings, bulkheads: Bulkheads
    ) -> None:
        self.commands = commands
        self.graph = graph
        self.seconds = settings.query_seconds
        self.total_seconds = settings.queue_seconds + settings.query_seconds
        self.range_scans = {
            resource.type: RangeScans(commands, resource.collection) for resource in graph.values()
        }
        self.pages = Coalescer[tuple[Window, PointInTime]](max_batch_size=_MAX_CALLERS)
        self.bulkheads = bulkheads


class CollectionQuery:
    """The records of a type that satisfy the filters, in the order of the request's query.

    point: the point in time that all its commands read at. The methods raise PyMongoError,
    ExecutionTimeout after the time limit, or Overloaded.
    """

    def __init__(
        self,
        context: ReadContext,
        resource: Resource,
        filters: Sequence[Filter],
        query: Query,
        point: PointInTime,
    ) -> None:
        self._filters = filters
        self.order = query.order
        self.point = point
        self._relationships = {key.relationship for key in query.order if key.relationship}
        self._context = context
        self._resource = resource
        fields = self._fields = fields_of(resource, query.attributes(resource))
        # Cursors contain the values that the order compares.
        sort_fields = (sort_field(key).partition(".")[0] for key in query.order)
        self._projection = only([*fields, *sort_fields])
        self.key = resource.type, tuple(filters), query.order, fields
        self._is_indexed = is_indexed(filters, query.order)
        self._is_narrow = self._is_indexed and is_narrow(filters)
        self._session: Session | None = None

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions of the filters: of long ones, made only once their query has a slot."""
        return [condition for condition in map(match, self._filters) if condition]

    @asynccontextmanager
    async def slot(self, page: Page | None) -> AsyncIterator[None]:
        """Admit the commands for a page, or the first one for a stream.

        Heavy queries are ended in MongoDB if the caller is cancelled.
        """
        bulkheads = self._context.bulkheads
        if not self.is_heavy(page):
            async with bulkheads.small_requests:
                yield
            return
        async with bulkheads.heavy_queries, self._context.commands.ended_if_cancelled() as session:
            self._session = session
            yield

    def is_heavy(self, page: Page | None) -> bool:
        """Whether a page, or a stream, may read many more records than it shows."""
        if isinstance(page, NumberedPage):
            is_deep = (page.number - 1) * page.size > MAX_OFFSET
            return page.total or is_deep or not self._is_indexed
        return not self._is_indexed

    async def find(
        self, conditions: Conditions, order: Order, size: int, offset: int = 0
    ) -> list[Record]:
        """Return at most `size` records that satisfy the conditions, which include the filters.

        The records may be shared with other requests: callers must not modify them.
        """
        if not offset and self._is_range_scan(conditions, order):
            direction = DESCENDING if order[0].descending else ASCENDING
            query = RangeQuery(conditions, direction, size, self._fields)
            scans = self._context.range_scans[self._resource.type]
            records, self.point.time = await scans.find(query, self.point.time)
            return records
        if not self._relationships:
            return await find_first(self._read, conditions, order, size, offset)
        if self._join and offset <= MAX_OFFSET:
            found = await self._join.find(self.conditions, conditions, order, offset + size)
            return found[offset:]
        return await self._sort_all(conditions, order, size, offset)

    async def count(self) -> int:
        """Return how many records satisfy the filters."""
        stages: list[Stage] = [{"$match": all_of(self.conditions)}, {"$count": "total"}]
        counted = await self._run(self._limited(self._aggregate(stages)))
        return counted[0]["total"] if counted else 0

    @asynccontextmanager
    async def stream(self, batch_size: int) -> AsyncIterator[AsyncIterator[list[Record]]]:
        """Yield an iterator over all records that satisfy the filters, in batches of this size.

        The response counts as a stream until the context ends; if few records can satisfy the
        filters, only if they are more than one batch.
        """
        async with AsyncExitStack() as slots:
            if not self._is_narrow:
                await slots.enter_async_context(self._context.bulkheads.streams)
            read = self._joined_batches if self._join else self._batches
            async with aclosing(read(batch_size, slots)) as batches:
                yield batches

    async def _joined_batches(
        self, batch_size: int, slots: AsyncExitStack
    ) -> AsyncGenerator[list[Record]]:
        """Read page after page, as no cursor yields the records of a join in order."""
        heavy_queries = self._context.bulkheads.heavy_queries
        read = partial(find_after, self.find, self.conditions, self.order)
        async with self._context.commands.ended_if_cancelled() as session:
            self._session = session
            async with heavy_queries:
                records = await read(END, batch_size)
            if self._is_narrow and len(records) == batch_size:
                await slots.enter_async_context(self._context.bulkheads.streams)
            while len(records) == batch_size:
                yield records
                position = position_of(records[-1], self.order)
                async with heavy_queries.again():
                    records = await read(position, batch_size)
        if records:
            yield records

    async def _batches(
        self, batch_size: int, slots: AsyncExitStack
    ) -> AsyncGenerator[list[Record]]:
        commands, bulkheads = self._context.commands, self._context.bulkheads
        is_heavy = self.is_heavy(None)
        async with AsyncExitStack() as resources:
            if is_heavy:
                session = await resources.enter_async_context(commands.ended_if_cancelled())
                self._session = session
            async with bulkheads.heavy_queries if is_heavy else bulkheads.small_requests:
                time = self.point.time = self.point.time or await commands.now()
                command = self._stream_command(batch_size)
                cursor = await commands.stream(command, time, self._session)
                resources.push_async_callback(cursor.close)
                records = await cursor.batch_size(batch_size).to_list(batch_size)
            if self._is_narrow and _has_more(cursor):
                await slots.enter_async_context(bulkheads.streams)
            while _has_more(cursor):
                yield records
                async with bulkheads.heavy_queries.again() if is_heavy else nullcontext():
                    records = await cursor.to_list(batch_size)
        if records:
            yield records

    @cached_property
    def _join(self) -> NestedLoopJoin | None:
        """The join that serves the order; None if it has fields of several relationships."""
        if len(self._relationships) != 1:
            return None
        (relationship,) = self._relationships
        target = self._context.graph[relationship.target]
        fields = [key.stored_name for key in self.order if key.relationship]
        reads = JoinReads(
            self._resource,
            relationship,
            target,
            self._projection,
            self._read,
            self._sort_all,
            lambda command: self._run(self._limited(command)),
        )
        return NestedLoopJoin(fields, reads)

    async def _read(
        self, conditions: Conditions, order: Order, size: int, offset: int
    ) -> list[Record]:
        return await self._run(self._command(conditions, order, size, offset))

    async def _sort_all(
        self, conditions: Conditions, order: Order, size: int, offset: int
    ) -> list[Record]:
        stages = self._stages(conditions, order, size, offset)
        return await self._run(self._limited(self._aggregate(stages)))

    async def _run(self, command: Command) -> list[Record]:
        found = await self._context.commands.run(command, self.point.time, self._session)
        self.point.time = found.time
        return found.records

    def _stream_command(self, batch_size: int) -> Command:
        if not self._relationships:
            return self._command(self.conditions, self.order, batch_size=batch_size)
        stages = self._stages(self.conditions, self.order, 0, 0)
        return self._limited(self._aggregate(stages, batch_size))

    def _command(
        self,
        conditions: Conditions,
        order: Order,
        size: int = 0,
        offset: int = 0,
        batch_size: int = ONE_BATCH,
    ) -> Command:
        """Return a `find` command. size: the maximum number of records, 0 for no limit."""
        command: Command = {
            "find": self._resource.collection,
            "filter": all_of(conditions),
            "projection": self._projection,
            "sort": sort_document(order),
            "skip": offset,
            "limit": size,
            "batchSize": batch_size,
            "allowDiskUse": True,
        }
        # A range scan takes time proportional to its result; a limit would truncate long streams.
        is_bounded = offset or not self._is_range_scan(conditions, order)
        return self._limited(command) if is_bounded else command

    def _aggregate(self, stages: list[Stage], batch_size: int = ONE_BATCH) -> Command:
        cursor = {"batchSize": batch_size}
        name = self._resource.collection
        return {"aggregate": name, "pipeline": stages, "cursor": cursor, "allowDiskUse": True}

    def _limited(self, command: Command) -> Command:
        return {**command, "maxTimeMS": round(self._context.seconds * 1_000)}

    def _is_range_scan(self, conditions: Conditions, order: Order) -> bool:
        """Whether the index of the ids alone serves the conditions and the order."""
        id_field = BY_ID[0].stored_name
        return (
            order[0].stored_name == id_field
            and not self._relationships
            and not self.conditions
            and all(condition.keys() == {id_field} for condition in conditions)
        )

    def _stages(self, conditions: Conditions, order: Order, size: int, offset: int) -> list[Stage]:
        own, related = split(conditions)
        return [
            {"$match": all_of(own)},
            *self._lookups(),
            {"$match": all_of(related)},
            {"$sort": sort_document(order)},
            *([{"$skip": offset}] if offset else []),
            *([{"$limit": size}] if size else []),
            {"$project": self._projection},
        ]

    def _lookups(self) -> Iterator[Stage]:
        """Yield the stages that add the sort fields of each related resource."""
        for relationship in self._relationships:
            fields = [key.stored_name for key in self.order if key.relationship == relationship]
            # With a pipeline of its own, a `$lookup` takes seven times as long.
            lookup = {
                "from": self._context.graph[relationship.target].collection,
                "localField": relationship.foreign_key,
                "foreignField": "_id",
                "as": _TARGET,
            }
            yield {"$lookup": lookup}
            values = {field: {"$first": f"${_TARGET}.{field}"} for field in fields}
            yield {"$set": {f"{RELATED}.{relationship.name}": values, _TARGET: "$$REMOVE"}}


def _has_more(cursor: AsyncIOMotorCommandCursor[Record]) -> bool:
    # The stubs of motor declare this property as a method.
    return cursor.alive  # type: ignore[return-value]
