"""Operations on stored resources."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial

from bson.timestamp import Timestamp

from registry.jsonapi.atomic_operations import Operation
from registry.jsonapi.changes import Change
from registry.jsonapi.filtering import filtered_fields
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.settings import Settings
from registry.storage import idempotency
from registry.storage.availability import Availability
from registry.storage.backlog import Backlog
from registry.storage.backups import require_complete
from registry.storage.batching import Coalescer
from registry.storage.bulkheads import Bulkheads
from registry.storage.client import Database
from registry.storage.disk_space import DiskSpace
from registry.storage.errors import DuplicateValue, RecordNotFound, translated_errors
from registry.storage.idempotency import IdempotencyKey
from registry.storage.maintenance import Maintenance
from registry.storage.orphaned_transactions import OrphanedTransactions
from registry.storage.reads.commands import Commands, PointInTime
from registry.storage.reads.lookups import Lookups
from registry.storage.reads.read_context import ReadContext
from registry.storage.records import Versions, Written, version_of
from registry.storage.snapshot import Snapshot
from registry.storage.transactions import TransactionConflict, Transactions
from registry.storage.unique_indexes import UniqueIndexes
from registry.storage.visible_fields import visible_fields
from registry.storage.writes import atomic_operations
from registry.storage.writes.atomic_operations import Performed
from registry.storage.writes.attribute_updates import AttributeUpdates
from registry.storage.writes.commands import WriteCommands
from registry.storage.writes.deletions import delete
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.insertions import Insertions
from registry.storage.writes.keyed_insertions import KeyedInsertions
from registry.storage.writes.link_writes import LinkWrites
from registry.storage.writes.record_updates import UpdateRequest
from registry.storage.writes.unit_of_work import WriteRequest
from registry.storage.writes_in_progress import WritesInProgress

_MAX_CALLERS = 1_000
"""Requests that share one update of missing computed fields."""

_MAX_SMALL_TRANSACTIONS = 16
"""Deletions and atomic operations in progress, each of which takes a thread."""

_LARGE = 100
"""A transaction of more operations and linked resources than this is a large one."""


class Repository:
    """The resources of one database.

    settings: the limits of queries and of operations in progress. Methods that write raise
    Unavailable, BulkheadFull and DiskNearlyFull. A write that has begun is completed even if its
    caller is cancelled. With an idempotency key, it is executed once within a day: a repeated call
    returns the result of the first one that succeeded, or raises FingerprintMismatch if its
    fingerprint differs.
    """

    def __init__(self, database: Database, graph: Graph, settings: Settings) -> None:
        self._database = database
        self._graph = graph
        self._disk_space = DiskSpace(database)
        self._availability = Availability(database)
        commands = Commands(database)
        self._lookups = Lookups(commands, graph)
        self._bulkheads = Bulkheads.of(settings)
        self._bulkheads.expose()
        self._backlog = Backlog()
        self._reads = ReadContext(commands, graph, settings, self._bulkheads, self._backlog)
        self._recomputations = Coalescer[None](name="recomputations", max_callers=_MAX_CALLERS)
        self._counters = Counters(database, graph)
        self._in_progress = WritesInProgress()
        orphans = OrphanedTransactions(database)
        self._transactions = Transactions(database, graph, orphans)
        self._large_transactions = Transactions(database, graph, orphans)
        self._unique_indexes = UniqueIndexes(database, graph, commands)
        self._maintenance = Maintenance(database, graph, self._bulkheads, self._backlog)
        self._small_transactions = asyncio.Semaphore(_MAX_SMALL_TRANSACTIONS)
        self._link_writes = LinkWrites(
            self._transactions, self._large_transactions, self._in_progress
        )
        self._insertions, self._keyed_insertions, self._attribute_updates = {}, {}, {}
        for resource in graph.values():
            writes = WriteCommands(database, commands, resource)
            self._insertions[resource] = Insertions(
                resource, writes, self._counters, orphans, self._in_progress
            )
            self._keyed_insertions[resource] = KeyedInsertions(
                resource, self._transactions, self._counters
            )
            self._attribute_updates[resource] = AttributeUpdates(
                resource, writes, orphans, self._in_progress
            )

    async def prepare(self) -> None:
        """Create missing indexes, computed fields and counters, before anything else is called.

        For large collections, indexes that are not unique and computed fields are completed in the
        background, so that the service is ready soon. Raises StartError if the data are incomplete
        or several records have one value of a unique attribute; also PyMongoError.
        """
        await require_complete(self._database)
        await self._counters.prepare()
        await idempotency.prepare(self._database)
        await self._unique_indexes.prepare()
        await self._maintenance.prepare()
        await self._disk_space.watch()

    async def catch_up(self) -> None:
        """Wait until the indexes and text blocks that `prepare` has found missing are complete."""
        await self._maintenance.catch_up()

    async def close(self) -> None:
        """Wait until all writes have ended, then give back ids that were allocated ahead."""
        self._disk_space.close()
        await self._maintenance.close()
        for resource in self._graph.values():
            await self._insertions[resource].close()
            await self._keyed_insertions[resource].close()
            await self._attribute_updates[resource].close()
        await self._link_writes.close()
        await self._in_progress.ended()
        await self._reads.close()
        await self._transactions.close()
        await self._large_transactions.close()
        await self._counters.close()

    async def is_available(self) -> bool:
        """Return whether the primary of the database replies within a second."""
        return await self._availability.has_primary()

    def snapshot(self, time: Timestamp | None = None) -> Snapshot:
        """Return a snapshot for one document.

        time: that of a write whose result the document shows; None for the latest state.
        """
        return Snapshot(self._lookups, self._reads, PointInTime(time))

    async def snapshot_for(self, resource: Resource, query: Query) -> Snapshot:
        """Return a snapshot of the latest state for a query. Raises Unavailable.

        First stores computed fields that external writers left out, if the query filters or sorts
        by them.
        """
        named = {one for part in query.filters for one in filtered_fields(part, resource.type)}
        for key in query.order:
            owner = key.relationship.target if key.relationship else resource.type
            named.add((owner, key.stored_name))
        for type_name in {name for name, field in named if field in self._graph[name].computed}:
            recompute = partial(self._maintenance.recompute, self._graph[type_name])
            with translated_errors():
                await self._recomputations.load(type_name, recompute)
        return self.snapshot()

    async def insert(
        self,
        resource: Resource,
        change: Change,
        *,
        read_back: bool = False,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Store a new resource with its links and return what was written.

        read_back: whether related resources will be read at the time of the write, which is unknown
        otherwise. Raises RecordNotFound if a linkage names resources that do not exist, or
        DuplicateValue; then nothing is stored.
        """
        self._disk_space.require()
        self._backlog.written(resource.type)
        is_plain = not change.linkages and not read_back

        async def attempt() -> Written:
            if is_plain and key is not None:
                insertions = self._keyed_insertions[resource]
                with suppress(TransactionConflict):
                    async with self._bulkheads.small_requests:
                        return Written(await insertions.insert(change, key))
            (id_,) = await self._counters.allocate(resource, 1)
            request = WriteRequest(
                resource, id_, change, is_new=True, is_read_back=read_back, key=key
            )
            written = await self._write_links(request)
            assert written is not None  # noqa: S101 - for mypy: only updates find no record
            return written

        try:
            if is_plain and key is None:
                insertion = partial(self._insertions[resource].insert, change)
                async with self._bulkheads.small_requests:
                    return Written(await self._counters.retry_if_taken(insertion))
            return await self._counters.retry_if_taken(attempt)
        except DuplicateValue as taken:
            await self._identify(taken)
            raise

    async def update(
        self,
        resource: Resource,
        id_: int,
        change: Change,
        versions: Versions = None,
        *,
        read_back: bool = False,
        key: IdempotencyKey | None = None,
    ) -> Written:
        """Update a resource and its links and return what was written.

        Members of other resources move. read_back: whether related resources will be read at the
        time of the write, which is unknown otherwise. Raises RecordNotFound, also if a linkage
        names resources that do not exist, VersionConflict or DuplicateValue; then nothing is
        changed.
        """
        self._disk_space.require()
        if change.attributes:
            self._backlog.written(resource.type)
        written: Written | None
        try:
            if read_back:
                return await self._update_and_read_back(resource, id_, change, versions)
            if change.linkages:
                request = WriteRequest(resource, id_, change, versions, key=key)
                written = await self._write_links(request)
            else:
                update = UpdateRequest(id_, change, versions)
                async with self._bulkheads.small_requests:
                    record = await self._attribute_updates[resource].update(update)
                written = None if record is None else Written(record)
        except DuplicateValue as taken:
            await self._identify(taken)
            raise
        if written is None:
            raise RecordNotFound.by_id(resource.type, id_)
        return written

    async def _update_and_read_back(
        self, resource: Resource, id_: int, change: Change, versions: Versions
    ) -> Written:
        request = WriteRequest(resource, id_, change, versions, is_read_back=True)
        fields = visible_fields(resource)
        while written := await self._write_links(request):
            point = PointInTime(written.time)
            stored = await self._lookups.find(resource, "_id", (id_,), fields, point)
            if not stored:
                break
            # A transaction that writes nothing has no commit time of its own: the snapshot may show
            # a later write of another request. Then the request is applied again.
            if version_of(stored[0]) == version_of(written.record):
                return written
        raise RecordNotFound.by_id(resource.type, id_)

    async def delete(
        self,
        resource: Resource,
        id_: int,
        versions: Versions = None,
        *,
        author: str | None = None,
    ) -> None:
        """Delete a resource and the links to it. Raises RecordNotFound or VersionConflict.

        author: of the change to resources that were linked to it.
        """
        self._disk_space.require()

        async def attempt() -> Record | None:
            async with self._small_transactions:
                committed = await self._transactions.run(
                    lambda transaction: delete(transaction, resource, id_, versions, author)
                )
            return committed.result

        if await self._bulkheads.small_requests.complete(attempt, self._in_progress) is None:
            raise RecordNotFound.by_id(resource.type, id_)

    async def execute(
        self, operations: Sequence[Operation], key: IdempotencyKey | None = None
    ) -> Performed:
        """Execute all operations in order, or none.

        Raises RecordNotFound or DuplicateValue with the pointer into the first operation that
        fails, or StoredResultTooLarge.
        """
        self._disk_space.require()
        for one in operations:
            self._backlog.written(one.resource.type)
        is_large = sum(1 + one.change.size for one in operations) > _LARGE
        transactions = self._large_transactions if is_large else self._transactions

        async def attempt() -> Performed:
            ids = await atomic_operations.allocate_ids(operations, self._counters)
            execution = partial(atomic_operations.execute, operations, ids, key)
            async with nullcontext() if is_large else self._small_transactions:
                committed = await transactions.run(execution)
            return committed.result

        bulkheads = self._bulkheads
        bulkhead = bulkheads.large_transactions if is_large else bulkheads.small_requests
        execution = partial(self._counters.retry_if_taken, attempt)
        try:
            return await bulkhead.complete(execution, self._in_progress)
        except DuplicateValue as taken:
            await self._identify(taken)
            raise

    async def _identify(self, taken: DuplicateValue) -> None:
        """Add the id of the resource that has the value. Raises Overloaded."""
        async with self._bulkheads.small_requests:
            taken.id = await self._unique_indexes.find_id(taken)

    async def _write_links(self, request: WriteRequest) -> Written | None:
        if request.change.size > _LARGE:
            write = partial(self._link_writes.write_large, request)
            return await self._bulkheads.large_transactions.complete(write, self._in_progress)
        async with self._bulkheads.small_requests:
            return await self._link_writes.write(request)
