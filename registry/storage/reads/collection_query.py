"""Queries on one collection: what they share, and the steps that serve one of them."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property

from bson.timestamp import Timestamp

from registry.capacity import SHARING_CALLERS, Capacity
from registry.jsonapi.filtering import Filter, names_related
from registry.jsonapi.pagination import Window
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID
from registry.storage.backlog import Backlog
from registry.storage.bulkheads import Bulkheads
from registry.storage.mongo.batching import Coalescer
from registry.storage.mongo.read_commands import (
    ReadCommands,
    SnapshotReader,
    aggregate_command,
    find_command,
)
from registry.storage.reads.filters import TextSearch, to_query
from registry.storage.reads.id_index import IdIndex, IdPosition, PositionResult
from registry.storage.reads.query_plans import plan
from registry.storage.reads.sorted_reads import RangeScans, SortedReads
from registry.storage.record_schema import require_valid
from registry.storage.records import Conditions, Stage, conjunction, fields_of, projection


class ResourceCollection:
    """A collection, with what its queries share: indexes, pages in progress, and limits.

    seconds: the time limit of a query. total_seconds: that of a heavy page with its wait. backlog:
    indexes and text blocks that are not complete.
    """

    def __init__(
        self,
        resource: ResourceType,
        commands: ReadCommands,
        graph: Graph,
        capacity: Capacity,
        bulkheads: Bulkheads,
        backlog: Backlog,
    ) -> None:
        self.resource = resource
        self.graph = graph
        self.bulkheads = bulkheads
        self.backlog = backlog
        self.seconds = capacity.query_seconds
        self.total_seconds = capacity.queue_seconds + capacity.query_seconds
        self.id_index = IdIndex(commands, resource.collection)
        self.range_scans = RangeScans(commands, resource.collection)
        self.pages = Coalescer[tuple[Window, Timestamp | None]](
            name="pages", max_callers=SHARING_CALLERS
        )
        self.totals = Coalescer[tuple[int, Timestamp | None]](
            name="totals", max_callers=SHARING_CALLERS
        )


class CollectionQuery:
    """The records of a type that satisfy the filters, in the order of the request's query.

    filters: all of which the records satisfy. names_related: whether these have conditions on
    related resources, which `joined_reads` serves. plan: what the query costs. records: reads
    records of the type by conditions. The methods raise PyMongoError, ExecutionTimeout after the
    time limit, or BulkheadFull.
    """

    def __init__(
        self,
        collection: ResourceCollection,
        filters: Sequence[Filter],
        query: Query,
        reader: SnapshotReader,
    ) -> None:
        self.collection = collection
        self.resource = collection.resource
        self.filters = filters
        self.names_related = any(map(names_related, filters))
        self.order = query.order
        self.reader = reader
        self.plan = plan(self.resource, filters, query.order, collection.backlog.unindexed)
        self._query = query
        self._fields = fields_of(self.resource, query.attributes(self.resource))
        self._is_range = self.is_by_id and not filters
        self.records = SortedReads(
            reader,
            self.resource,
            collection.graph,
            query.order,
            self._fields,
            collection.range_scans if self._is_range else None,
        )
        self._has_searched = False

    @property
    def key(self) -> tuple[object, ...]:
        """What determines the records, beside the point in time."""
        return tuple(self.filters), self.order, self._fields

    def require_valid(self, records: Sequence[Record]) -> None:
        """Raise InvalidRecord if one of the records that it has returned is not valid."""
        sorted_by = (key.stored_name for key in self.order if not key.relationship)
        require_valid(self.resource, records, (*self._fields, *sorted_by))

    def with_filters(self, filters: Sequence[Filter]) -> "CollectionQuery":
        """Return the query with these filters instead, at the same point in time."""
        return CollectionQuery(self.collection, filters, self._query, self.reader)

    @cached_property
    def conditions(self) -> Conditions:
        """MongoDB conditions, built once the query is admitted: long filters are expensive."""
        return [condition for condition in map(to_query, self.filters) if condition]

    @property
    def is_by_id(self) -> bool:
        """Whether the order is that of the ids."""
        return self.order[0].stored_name == ID and not any(key.relationship for key in self.order)

    @asynccontextmanager
    async def admitted(self, *, is_heavy: bool) -> AsyncIterator[None]:
        """Admit the commands for a page or a total.

        is_heavy: as its plan says. MongoDB then ends the commands if the caller is cancelled.
        """
        bulkheads = self.collection.bulkheads
        if not is_heavy:
            async with bulkheads.small_requests:
                yield
            return
        async with bulkheads.heavy_queries, self.reader.cancellable():
            await self.search()
            yield

    async def search(self) -> None:
        """Add the ids of records that text blocks find, before `conditions` is used."""
        if not self._has_searched:
            self._has_searched = True
            self.filters = await self.with_candidates(self.resource, self.filters)

    async def with_candidates(
        self, resource: ResourceType, filters: Sequence[Filter]
    ) -> Sequence[Filter]:
        """Return equivalent filters of a type, with the ids that text blocks find."""
        search = TextSearch(resource, self.reader, self.collection.backlog)
        return await search.with_candidates(filters)

    async def has_more_than(self, limit: int) -> bool:
        """Whether more records than a limit satisfy the filters."""
        sort = {} if self.conditions else {"sort": {ID: 1}}
        command = find_command(
            self.resource.collection,
            conjunction(self.conditions),
            projection(()),
            skip=limit,
            limit=1,
            **sort,
        )
        return bool(await self.reader.read(command))

    async def count(self, limit: int | None = None) -> int:
        """Return how many records satisfy the filters, which name no related ones.

        limit: beyond which the records are not counted.
        """
        bound: list[Stage] = [] if limit is None else [{"$limit": limit}]
        stages = [{"$match": conjunction(self.conditions)}, *bound, {"$count": "total"}]
        found = await self.reader.read(aggregate_command(self.resource.collection, stages))
        return found[0]["total"] if found else 0

    def expected_position(self, offset: int) -> PositionResult | None:
        """Return what `position` will return unless others write; None if they probably do."""
        if self.filters or self.reader.time or not self.is_by_id:
            return None
        return self.collection.id_index.expected(self._id_position(offset))

    async def position(self, offset: int) -> PositionResult | None:
        """Return the total, and the record at an offset in the order of the ids.

        It determines the point in time. None if there are filters, if the point in time is already
        determined, or if MongoDB does not report changes.
        """
        if self.filters or self.reader.time:
            return None
        result = await self.collection.id_index.read(self._id_position(offset))
        if result:
            self.reader.time = result.time
        return result

    def _id_position(self, offset: int) -> IdPosition:
        return IdPosition(offset, descending=self.order[0].descending)

    def batches(self, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records in batches, sorted by the database, by one command."""
        command = self.records.command(self.conditions, self.order, batch_size=size)
        # A range scan takes time proportional to its result.
        return self.reader.stream(command, size, is_limited=not self._is_range)
