"""Operations on stored resources."""

from collections.abc import Sequence

from bson.timestamp import Timestamp
from pymongo import ASCENDING, IndexModel

from registry.jsonapi.atomic_operations import Operation
from registry.jsonapi.filtering import filtered_fields
from registry.jsonapi.query import Query
from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.model.stored_fields import stored_fields
from registry.storage.client import Database
from registry.storage.errors import RecordNotFound, translated_errors
from registry.storage.orphaned_transactions import OrphanedTransactions
from registry.storage.reads.collection_queries import ReadContext
from registry.storage.reads.commands import Commands, PointInTime
from registry.storage.reads.lookups import Lookups
from registry.storage.records import Versions, Written, recompute, version_of
from registry.storage.snapshot import Snapshot
from registry.storage.transactions import Transactions
from registry.storage.writes import atomic_operations
from registry.storage.writes.attribute_updates import AttributeUpdates
from registry.storage.writes.commands import WriteCommands
from registry.storage.writes.deletions import delete
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.insertions import Insertions
from registry.storage.writes.link_writes import LinkWrites
from registry.storage.writes.record_updates import UpdateRequest
from registry.storage.writes.unit_of_work import WriteRequest

_RECOMPUTE_BATCH_SIZE = 10_000
"""Records per update of missing computed fields."""


class Repository:
    """The resources of one database.

    query_seconds: the time limit of queries that filter or sort. All methods but `prepare` raise
    Unavailable.
    """

    def __init__(self, database: Database, graph: Graph, query_seconds: float) -> None:
        self._database = database
        self._graph = graph
        commands = Commands(database)
        self._lookups = Lookups(commands, graph)
        self._reads = ReadContext(commands, graph, query_seconds)
        self._counters = Counters(database, graph)
        orphans = OrphanedTransactions(database)
        self._transactions = Transactions(database, graph, orphans)
        self._link_writes = LinkWrites(self._transactions)
        self._insertions, self._attribute_updates = {}, {}
        for resource in graph.values():
            writes = WriteCommands(database, commands, resource)
            self._insertions[resource] = Insertions(resource, writes, self._counters)
            self._attribute_updates[resource] = AttributeUpdates(resource, writes, orphans)

    async def prepare(self) -> None:
        """Create missing indexes, computed fields and counters, before anything else is called.

        Raises PyMongoError.
        """
        for resource in self._graph.values():
            fields = sorted({one.stored_name for one in stored_fields(resource).values()} - {"_id"})
            indexes = [IndexModel([(field, ASCENDING), ("_id", ASCENDING)]) for field in fields]
            if indexes:
                await self._database[resource.collection].create_indexes(indexes)
            await self._recompute(resource)
        await self._counters.prepare()

    async def close(self) -> None:
        """Give back ids that were allocated ahead; call it after all other methods."""
        await self._counters.close()

    def snapshot(self, time: Timestamp | None = None) -> Snapshot:
        """Return a snapshot for one document.

        time: that of a write whose result the document shows; None for the latest state.
        """
        return Snapshot(self._lookups, self._reads, PointInTime(time))

    async def snapshot_for(self, resource: Resource, query: Query) -> Snapshot:
        """Return a snapshot of the latest state, in which the query finds all it should find.

        Stores missing values of the computed fields that the query filters or sorts by first.
        """
        named = {(resource.type, name) for part in query.filters for name in filtered_fields(part)}
        for key in query.order:
            owner = key.relationship.target if key.relationship else resource.type
            named.add((owner, key.stored_name))
        for type_name in {name for name, field in named if field in self._graph[name].computed}:
            with translated_errors():
                await self._recompute(self._graph[type_name])
        return self.snapshot()

    async def insert(
        self, resource: Resource, change: Change, *, read_back: bool = False
    ) -> Written:
        """Store a new resource with its links and return what was written.

        read_back: whether related resources will be read at the time of the write, which is unknown
        otherwise. Raises RecordNotFound if a linkage names resources that do not exist; then
        nothing is stored.
        """

        async def attempt() -> Written:
            if not change.linkages and not read_back:
                return Written(await self._insertions[resource].insert(change))
            (id_,) = await self._counters.allocate(resource, 1)
            request = WriteRequest(resource, id_, change, is_new=True, is_read_back=read_back)
            written = await self._link_writes.write(request)
            assert written is not None  # noqa: S101 - for mypy: only updates find no record
            return written

        return await self._counters.retry_if_taken(attempt)

    async def update(
        self,
        resource: Resource,
        id_: int,
        change: Change,
        versions: Versions = None,
        *,
        read_back: bool = False,
    ) -> Written:
        """Update a resource and its links and return what was written.

        Members of other resources move. read_back: whether related resources will be read at the
        time of the write, which is unknown otherwise. Raises RecordNotFound, also if a linkage
        names resources that do not exist, or VersionConflict; then nothing is changed.
        """
        if read_back:
            return await self._update_and_read_back(resource, id_, change, versions)
        written: Written | None
        if change.linkages:
            written = await self._link_writes.write(WriteRequest(resource, id_, change, versions))
        else:
            update = UpdateRequest(id_, change, versions)
            record = await self._attribute_updates[resource].update(update)
            written = None if record is None else Written(record)
        if written is None:
            raise RecordNotFound.by_id(resource.type, id_)
        return written

    async def _update_and_read_back(
        self, resource: Resource, id_: int, change: Change, versions: Versions
    ) -> Written:
        request = WriteRequest(resource, id_, change, versions, is_read_back=True)
        while written := await self._link_writes.write(request):
            stored = await self.snapshot(written.time).get(resource, id_)
            # Where a request has changed nothing, another may have written before the commit.
            if version_of(stored) == version_of(written.record):
                return written
        raise RecordNotFound.by_id(resource.type, id_)

    async def delete(self, resource: Resource, id_: int, versions: Versions = None) -> None:
        """Delete a resource and the links to it. Raises RecordNotFound or VersionConflict."""
        committed = await self._transactions.run(
            lambda transaction: delete(transaction, resource, id_, versions)
        )
        if committed.result is None:
            raise RecordNotFound.by_id(resource.type, id_)

    async def execute(self, operations: Sequence[Operation]) -> list[tuple[Operation, Record]]:
        """Execute all operations in order, or none.

        Returns each operation, its placeholders replaced by ids, with the record that it wrote.
        Raises RecordNotFound with the pointer into the first operation that fails.
        """

        async def attempt() -> list[tuple[Operation, Record]]:
            with_ids = await atomic_operations.with_ids(operations, self._counters)
            committed = await self._transactions.run(
                lambda transaction: atomic_operations.execute(with_ids, transaction)
            )
            return committed.result

        return await self._counters.retry_if_taken(attempt)

    async def _recompute(self, resource: Resource) -> None:
        """Store the computed fields of records that external writers have stored without them."""
        collection = self._database[resource.collection]
        for field in resource.computed:
            while records := await collection.find({field: None}, {"_id": True}).to_list(
                _RECOMPUTE_BATCH_SIZE
            ):
                ids = [record["_id"] for record in records]
                await collection.update_many({"_id": {"$in": ids}}, recompute(resource))
