"""Operations on stored resources."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress
from functools import partial

from bson.timestamp import Timestamp

from registry.jsonapi.atomic_operations import Operation
from registry.jsonapi.changes import Change
from registry.jsonapi.query import Query
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.settings import Settings
from registry.storage import idempotency
from registry.storage.availability import Availability
from registry.storage.backlog import Backlog
from registry.storage.backups import require_complete
from registry.storage.bulkheads import Bulkheads
from registry.storage.client import Database
from registry.storage.computed_fields import ComputedFields
from registry.storage.disk_space import DiskSpace
from registry.storage.errors import DuplicateValue, RecordNotFound
from registry.storage.idempotency import IdempotencyKey
from registry.storage.maintenance import Maintenance
from registry.storage.reads.commands import PointInTime, ReadCommands
from registry.storage.reads.lookups import Lookups
from registry.storage.reads.read_context import ReadContext
from registry.storage.records import Versions, Written, version_of
from registry.storage.snapshot import Snapshot
from registry.storage.transactions import TransactionConflict
from registry.storage.unique_indexes import UniqueIndexes
from registry.storage.visible_fields import visible_fields
from registry.storage.writes import atomic_operations
from registry.storage.writes.atomic_operations import Executed
from registry.storage.writes.deletions import delete
from registry.storage.writes.record_updates import UpdateRequest
from registry.storage.writes.unit_of_work import WriteRequest
from registry.storage.writes.write_context import WriteContext

_LARGE = 100
"""A transaction of more operations and linked resources than this is a large one."""


class Repository:
    """The resources of one database.

    settings: the limits of queries and of operations in progress. bulkheads: the latter; callers
    enter `large_bodies` and `large_documents`, the methods enter the others. Methods that write
    raise Unavailable, BulkheadFull and DiskNearlyFull. A write that has begun is completed even if
    its caller is cancelled. With an idempotency key, it is executed once within a day: a repeated
    call returns the result of the first one that succeeded, or raises FingerprintMismatch if its
    fingerprint differs.
    """

    def __init__(self, database: Database, graph: Graph, settings: Settings) -> None:
        self._database = database
        self._disk_space = DiskSpace(database)
        self._availability = Availability(database)
        self.bulkheads = Bulkheads.of(settings)
        self.bulkheads.expose()
        self._backlog = Backlog()
        commands = ReadCommands(database)
        self._lookups = Lookups(commands, graph)
        self._reads = ReadContext(commands, graph, settings, self.bulkheads, self._backlog)
        self._writes = WriteContext(database, graph, commands)
        self._unique_indexes = UniqueIndexes(database, graph, commands)
        self._computed_fields = ComputedFields(database, graph)
        self._maintenance = Maintenance(
            database, graph, self._computed_fields, self.bulkheads, self._backlog
        )

    async def prepare(self) -> None:
        """Create missing indexes, computed fields and counters, before anything else is called.

        For large collections, indexes that are not unique and computed fields are completed in the
        background, so that the service is ready soon. Raises StartError if the data are incomplete
        or several records have one value of a unique attribute; also PyMongoError.
        """
        await require_complete(self._database)
        await self._writes.counters.prepare()
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
        await self._writes.close()
        await self._reads.close()

    async def is_available(self) -> bool:
        """Return whether the primary of the database replies within a second."""
        return await self._availability.has_primary()

    def snapshot(self, time: Timestamp | None = None) -> Snapshot:
        """Return a snapshot for one document.

        time: that of a write whose result the document shows; None for the latest state.
        """
        return Snapshot(self._lookups, self._reads, PointInTime(time))

    async def snapshot_for(self, resource: Resource, query: Query) -> Snapshot:
        """Complete the computed fields that a query uses, and return a snapshot for it.

        It shows the latest state. Raises Unavailable.
        """
        await self._computed_fields.complete_for(resource, query)
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

        read_back: whether related resources will be read as of the write, for which its commit time
        has to be known. Raises RecordNotFound if a linkage names resources that do not exist, or
        DuplicateValue; then nothing is stored.
        """
        self._disk_space.require()
        self._backlog.written(resource.type)
        insert: Callable[[], Awaitable[Written]]
        if change.linkages or read_back:
            insert = partial(self._insert_linked, resource, change, read_back=read_back, key=key)
        elif key is None:
            insert = partial(self._insert_plain, resource, change)
        else:
            insert = partial(self._insert_keyed, resource, change, key)
        try:
            return await self._writes.counters.retry_if_taken(insert)
        except DuplicateValue as taken:
            await self._add_holder(taken)
            raise

    async def _insert_plain(self, resource: Resource, change: Change) -> Written:
        async with self.bulkheads.small_requests:
            return Written(await self._writes.insertions[resource].insert(change))

    async def _insert_keyed(
        self, resource: Resource, change: Change, key: IdempotencyKey
    ) -> Written:
        with suppress(TransactionConflict):  # usually because the key has a result
            async with self.bulkheads.small_requests:
                return Written(await self._writes.keyed_insertions[resource].insert(change, key))
        return await self._insert_linked(resource, change, key=key)

    async def _insert_linked(
        self,
        resource: Resource,
        change: Change,
        *,
        read_back: bool = False,
        key: IdempotencyKey | None = None,
    ) -> Written:
        (id_,) = await self._writes.counters.allocate(resource, 1)
        written = await self._write_links(
            WriteRequest(resource, id_, change, is_new=True, is_read_back=read_back, key=key)
        )
        assert written is not None  # noqa: S101 - for mypy: only updates find no record
        return written

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

        Members of other resources move. read_back: whether related resources will be read as of the
        write, for which its commit time has to be known. key: only with linkages and without
        read_back, as other updates store no result. Raises RecordNotFound, also if a linkage names
        resources that do not exist, VersionConflict or DuplicateValue; then nothing is changed.
        """
        self._disk_space.require()
        if change.attributes:
            self._backlog.written(resource.type)
        try:
            if read_back:
                return await self._update_and_read_back(resource, id_, change, versions)
            if change.linkages:
                request = WriteRequest(resource, id_, change, versions, key=key)
                written = await self._write_links(request)
            else:
                update = UpdateRequest(id_, change, versions)
                written = await self._update_attributes(resource, update)
        except DuplicateValue as taken:
            await self._add_holder(taken)
            raise
        if written is None:
            raise RecordNotFound.by_id(resource.type, id_)
        return written

    async def _update_attributes(
        self, resource: Resource, request: UpdateRequest
    ) -> Written | None:
        async with self.bulkheads.small_requests:
            record = await self._writes.attribute_updates[resource].update(request)
        return None if record is None else Written(record)

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

    async def delete(self, resource: Resource, id_: int, versions: Versions = None) -> None:
        """Delete a resource and the links to it. Raises RecordNotFound or VersionConflict."""
        self._disk_space.require()

        async def attempt() -> Record | None:
            async with self._writes.small_transactions:
                committed = await self._writes.transactions.run(
                    lambda transaction: delete(transaction, resource, id_, versions)
                )
            return committed.result

        if await self.bulkheads.small_requests.complete(attempt, self._writes.in_progress) is None:
            raise RecordNotFound.by_id(resource.type, id_)

    async def execute(
        self, operations: Sequence[Operation], key: IdempotencyKey | None = None
    ) -> Executed:
        """Execute all operations in order, or none.

        Raises RecordNotFound or DuplicateValue with the pointer into the first operation that
        fails, or StoredResultTooLarge.
        """
        self._disk_space.require()
        for one in operations:
            self._backlog.written(one.resource.type)
        is_large = sum(1 + one.change.size for one in operations) > _LARGE
        transactions = self._writes.large_transactions if is_large else self._writes.transactions

        async def attempt() -> Executed:
            ids = await atomic_operations.allocate_ids(operations, self._writes.counters)
            work = partial(atomic_operations.execute, operations, ids, key)
            async with nullcontext() if is_large else self._writes.small_transactions:
                committed = await transactions.run(work)
            return committed.result

        bulkheads = self.bulkheads
        bulkhead = bulkheads.large_transactions if is_large else bulkheads.small_requests
        retried = partial(self._writes.counters.retry_if_taken, attempt)
        try:
            return await bulkhead.complete(retried, self._writes.in_progress)
        except DuplicateValue as taken:
            await self._add_holder(taken)
            raise

    async def _add_holder(self, taken: DuplicateValue) -> None:
        """Set the id of the resource that has the value. Raises BulkheadFull."""
        async with self.bulkheads.small_requests:
            taken.id = await self._unique_indexes.find_id(taken)

    async def _write_links(self, request: WriteRequest) -> Written | None:
        if request.change.size > _LARGE:
            write = partial(self._writes.link_writes.write_large, request)
            return await self.bulkheads.large_transactions.complete(write, self._writes.in_progress)
        async with self.bulkheads.small_requests:
            return await self._writes.link_writes.write(request)
