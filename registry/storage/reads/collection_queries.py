"""Queries on one collection: filtered, sorted, with a limit and an offset."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from functools import cached_property

from pymongo import ASCENDING, DESCENDING

from registry.jsonapi.filtering import Filter, names_related
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import Order
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID
from registry.storage.mongo.read_commands import Command, PointInTime, Session
from registry.storage.reads.bounded_sorts import find_first
from registry.storage.reads.filter_queries import all_of, match
from registry.storage.reads.id_index import IdPosition, Located
from registry.storage.reads.query_commands import QueryCommands
from registry.storage.reads.query_cost import MAX_OFFSET, is_indexed, is_narrow
from registry.storage.reads.range_scans import RangeQuery
from registry.storage.reads.read_context import ReadContext
from registry.storage.reads.sort_keys import Conditions, sort_field, split
from registry.storage.reads.text_search import TextSearch
from registry.storage.visible_fields import fields_of, only


class CollectionQuery:
    """The records of a type that satisfy the filters, in the order of the request's query.

    context: what it shares with other queries. names_related: whether the filters have conditions
    on related resources, which `joined_reads` serves. point: the point in time that all its
    commands read at. The methods raise PyMongoError, ExecutionTimeout after the time limit, or
    BulkheadFull.
    """

    def __init__(
        self,
        context: ReadContext,
        resource: ResourceType,
        filters: Sequence[Filter],
        query: Query,
        point: PointInTime,
    ) -> None:
        self._filters = filters
        self.names_related = any(map(names_related, filters))
        self.order = query.order
        self.point = point
        self._relationships = {key.relationship for key in query.order if key.relationship}
        self.context = context
        self._id_index = context.id_indexes[resource.type]
        self._resource = resource
        self._query = query
        fields = self._fields = fields_of(resource, query.attributes(resource))
        # Cursors contain the values that the order compares.
        sort_fields = (sort_field(key).partition(".")[0] for key in query.order)
        self._projection = only([*fields, *sort_fields])
        self._commands = QueryCommands(resource, context.graph, query.order, self._projection)
        self.key = resource.type, tuple(filters), query.order, fields
        self._is_indexed = is_indexed(filters, query.order)
        self._is_narrow = self._is_indexed and is_narrow(filters)
        self._session: Session | None = None
        self._has_searched = False

    @property
    def resource(self) -> ResourceType:
        """The type of the records."""
        return self._resource

    @property
    def filters(self) -> Sequence[Filter]:
        """The filters, all of which the records satisfy."""
        return self._filters

    def with_filters(self, filters: Sequence[Filter]) -> "CollectionQuery":
        """Return the query with these filters instead, at the same point in time.

        Its commands belong to the slot of this query, if it has one.
        """
        query = CollectionQuery(self.context, self._resource, filters, self._query, self.point)
        query._session = self._session
        return query

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions of the filters: of long ones, made only once their query has a slot."""
        return [condition for condition in map(match, self._filters) if condition]

    @asynccontextmanager
    async def slot(self, *, is_heavy: bool) -> AsyncIterator[None]:
        """Admit the commands for a page or a total.

        is_heavy: whether they may read many more records than they return. MongoDB then ends them
        if the caller is cancelled.
        """
        bulkheads = self.context.bulkheads
        if not is_heavy:
            async with bulkheads.small_requests:
                yield
            return
        async with bulkheads.heavy_queries, self.context.commands.cancellable_session() as session:
            self._session = session
            await self._narrow()
            try:
                yield
            finally:
                self._session = None

    @property
    def is_by_id(self) -> bool:
        """Whether the order is that of the ids."""
        return self.order[0].stored_name == ID and not self._relationships

    @property
    def is_indexed(self) -> bool:
        """Whether one index finds the records in this order and no others."""
        if self.lacks_indexes:
            return self.is_by_id and not self._filters
        return self._is_indexed

    @property
    def lacks_indexes(self) -> bool:
        """Whether indexes of the type are still being built."""
        return self._resource.type in self.context.backlog.unindexed

    async def find(
        self, conditions: Conditions, order: Order, size: int, offset: int = 0
    ) -> list[Record]:
        """Return at most `size` records that satisfy the conditions, which include the filters.

        They are sorted by the database, also by fields of related resources. The records may be
        shared with other requests: callers must not modify them, except by `make_ids_hashable`.
        """
        if offset <= MAX_OFFSET and self._is_range_scan(conditions):
            direction = DESCENDING if order[0].descending else ASCENDING
            query = RangeQuery(conditions, direction, size, self._fields, offset)
            scans = self.context.range_scans[self._resource.type]
            records, self.point.time = await scans.find(query, self.point.time)
            return records
        if order[0].relationship or split(conditions)[1]:
            return await self.read(conditions, order, size, offset)
        return await find_first(self.read, conditions, order, size, offset)

    async def read(
        self, conditions: Conditions, order: Order, size: int, offset: int = 0
    ) -> list[Record]:
        """Return what `find` does, by one command."""
        is_joined = any(key.relationship for key in order) or split(conditions)[1]
        command = (
            self._commands.join(conditions, order, size, offset)
            if is_joined
            else self._commands.find(conditions, order, skip=offset, limit=size)
        )
        return await self.run(command)

    async def has_more_than(self, limit: int) -> bool:
        """Whether more records than a limit satisfy the filters."""
        sort = {} if self.conditions else {"sort": {ID: 1}}
        command = {
            "find": self._resource.collection,
            "filter": all_of(self.conditions),
            "projection": only(()),
            "skip": limit,
            "limit": 1,
            **sort,
        }
        return bool(await self.run(command))

    def expect(self, offset: int) -> Located | None:
        """Return what `locate` will return unless others write; None if they probably do."""
        if self._filters or self.point.time or not self.is_by_id:
            return None
        return self._id_index.expect(self._position(offset))

    async def locate(self, offset: int) -> Located | None:
        """Return the total, and the record at an offset in the order of the ids.

        It determines the point in time. None if there are filters, if the point in time is already
        determined, or if MongoDB does not report changes.
        """
        if self._filters or self.point.time:
            return None
        located = await self._id_index.locate(self._position(offset))
        if located:
            self.point.time = located.time
        return located

    def _position(self, offset: int) -> IdPosition:
        return IdPosition(offset, descending=self.order[0].descending)

    @asynccontextmanager
    async def stream(
        self, batches: AsyncGenerator[list[Record]], batch_size: int, client: str | None = None
    ) -> AsyncIterator[AsyncIterator[list[Record]]]:
        """Yield an iterator over batches of this size, the last of which may be shorter.

        The response counts as a stream of the client until the context ends; if few records can
        satisfy the filters, only if they are more than one batch.
        """
        async with AsyncExitStack() as slots:
            if not self._is_narrow:
                await slots.enter_async_context(self.context.bulkheads.streams.slot(client))
            admitted = self._admitted(batches, batch_size, slots, client)
            async with aclosing(batches), aclosing(admitted):
                yield admitted

    async def _admitted(
        self,
        batches: AsyncGenerator[list[Record]],
        batch_size: int,
        slots: AsyncExitStack,
        client: str | None,
    ) -> AsyncGenerator[list[Record]]:
        bulkheads, is_heavy = self.context.bulkheads, not self.is_indexed
        async with AsyncExitStack() as sessions:
            if is_heavy:
                session = self.context.commands.cancellable_session()
                self._session = await sessions.enter_async_context(session)
            async with bulkheads.heavy_queries if is_heavy else bulkheads.small_requests:
                if is_heavy:
                    await self._narrow()
                records: list[Record] = await anext(batches, [])
            if self._is_narrow and len(records) == batch_size:
                await slots.enter_async_context(bulkheads.streams.slot(client))
            while len(records) == batch_size:
                yield records
                async with bulkheads.heavy_queries.readmit() if is_heavy else nullcontext():
                    records = await anext(batches, [])
        if records:
            yield records

    async def sorted_batches(self, batch_size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records in batches, as `find` sorts them, by one command."""
        commands = self.context.commands
        time = self.point.time = self.point.time or await commands.now()
        cursor = await commands.stream(self._stream_command(batch_size), time, self._session)
        try:
            cursor.batch_size(batch_size)
            while records := await cursor.to_list(batch_size):
                yield records
        finally:
            await cursor.close()

    async def _narrow(self) -> None:
        """Let the filters name the records that text blocks find, before `conditions` is used."""
        if not self._has_searched:
            self._has_searched = True
            self._filters = await self.searched(self._resource, self._filters)

    async def searched(self, resource: ResourceType, filters: Sequence[Filter]) -> Sequence[Filter]:
        """Return filters that match the same records of a type, and name those found by text."""
        search = TextSearch(resource, self.run, self.context.backlog.found_outside)
        return await search.narrowed(filters)

    async def run(self, command: Command) -> list[Record]:
        """Return what a command finds, in any collection, within the time limit."""
        found = await self.context.commands.run(
            self._limited(command), self.point.time, self._session
        )
        self.point.time = found.time
        return found.records

    def _stream_command(self, batch_size: int) -> Command:
        if self._relationships:
            join = self._commands.join(self.conditions, self.order, batch_size=batch_size)
            return self._limited(join)
        command = self._commands.find(self.conditions, self.order, batchSize=batch_size)
        # A range scan takes time proportional to its result; a limit would truncate long streams.
        return command if self._is_range_scan(self.conditions) else self._limited(command)

    def _limited(self, command: Command) -> Command:
        return {**command, "maxTimeMS": round(self.context.seconds * 1_000)}

    def _is_range_scan(self, conditions: Conditions) -> bool:
        """Whether the index of the ids alone serves the conditions and the order."""
        is_by_id = self.is_by_id and not self.conditions
        return is_by_id and all(condition.keys() == {ID} for condition in conditions)
