"""The repository: reads and writes of the resources of one database."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import pymongo
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure, PyMongoError

from registry.capacity import Capacity
from registry.jsonapi.changes import Write
from registry.jsonapi.error_types import DiskFull, InvalidPosition, PositionExpired
from registry.model.graph import Graph
from registry.model.record import ID
from registry.mongod.data_directory import RESERVE_BYTES, DiskSpace
from registry.storage.bulkheads import Bulkheads
from registry.storage.counters import COUNTERS, prepare_counters
from registry.storage.errors import RecordRefused, translated_errors
from registry.storage.indexes import IndexBuilds, prepare_expiry, prepare_unique_indexes
from registry.storage.mongo.batching import Coalescer
from registry.storage.mongo.change_feed import ChangeFeed, FeedPosition, Positions
from registry.storage.mongo.mongo_client import (
    LAST_BACKUP_ID,
    SERVICE_COLLECTION,
    Database,
    observed,
)
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.mongo.transactions import Transactions
from registry.storage.reads.shared_reads import Reads
from registry.storage.reads.snapshot import Snapshot
from registry.storage.validators import is_declared, prepare_validators
from registry.storage.writes.group_commit import GroupCommit
from registry.storage.writes.row_batches import RowBatch, RowImport
from registry.storage.writes.row_matches import RowMemory
from registry.storage.writes.write_requests import (
    IdempotencyKey,
    WriteRequest,
    WriteResult,
    prepare_results,
)

_PING_SECONDS = 1.0

_STATUS_SECONDS = 5.0

_TYPES_HAVE_CHANGED = "the declared types have changed: restart this service"

_UNAUTHORIZED = 13
"""MongoDB's error code for a command that the user may not run."""


class Repository:
    """The resources of one database.

    bulkheads: callers enter `uploads` and `followers`, and `streams` for some responses; the
    methods enter the others. positions: of this database; set by `prepare`. on_failure: called with
    the reason when the service has to end: another one has declared other types, or MongoDB refuses
    sessions.
    """

    positions: Positions

    def __init__(
        self,
        database: Database,
        graph: Graph,
        capacity: Capacity,
        on_failure: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_failure = on_failure
        self._database = database
        self._graph = graph
        self._disk_space = DiskSpace()
        self._pings = Coalescer[bool]("pings")
        self.capacity = capacity
        self.bulkheads = Bulkheads.of(capacity)
        unindexed = set[str]()
        commands = ReadCommands(database)
        self._reads = Reads(commands, graph, capacity, self.bulkheads, unindexed)
        self._transactions = Transactions(database, on_failure)
        self._group_commit = GroupCommit(self._transactions, graph)
        self._index_builds = IndexBuilds(database, graph, capacity, unindexed)

    async def prepare(self) -> None:
        """Create what the other calls need; slow work on large collections follows later.

        Raises StartError if stored data do not fit the types, or a unique index cannot be created;
        also raises PyMongoError.
        """
        await prepare_validators(self._database, self._graph)
        await prepare_counters(self._database, self._graph)
        self.positions = await Positions.of(self._database, COUNTERS)
        await prepare_results(self._database)
        await prepare_expiry(self._database, self._graph)
        await prepare_unique_indexes(self._database, self._graph)
        await self._index_builds.prepare()
        await self._disk_space.watch(self._database.client)

    async def catch_up(self) -> None:
        """Wait until the indexes that `prepare` has found missing are complete."""
        await self._index_builds.catch_up()

    async def close(self) -> None:
        """Wait until all writes have ended."""
        self._disk_space.close()
        await self._index_builds.close()
        await self._group_commit.close()
        await self._transactions.close()

    async def is_available(self) -> bool:
        """Return whether the primary of the database replies within a second."""
        try:
            async with asyncio.timeout(_PING_SECONDS):
                return await self._pings.load(None, self._ping)
        except (TimeoutError, PyMongoError):
            return False

    async def _ping(self) -> bool:
        with pymongo.timeout(_PING_SECONDS):  # so that the thread does not wait longer either
            hello = await observed("hello", self._database.command("hello"))
        return bool(hello["isWritablePrimary"])

    async def last_backup(self) -> float | None:
        """Return the time of the last backup, in seconds since 1970; 0 without one.

        None if MongoDB fails.
        """
        try:
            with pymongo.timeout(_STATUS_SECONDS):
                found = await self._database[SERVICE_COLLECTION].find_one({ID: LAST_BACKUP_ID})
        except PyMongoError:
            return None
        return found["time"].timestamp() if found else 0.0

    def snapshot(self, time: Timestamp | None = None) -> Snapshot:
        """Return a snapshot for one document: of the time of a write, by default the latest."""
        return Snapshot(self._reads, time)

    async def recent_changes(self) -> ChangeFeed:
        """Return the open feed of changes, from a minute ago if they are kept, else from now.

        Raises Unavailable, or InternalError if MongoDB refuses change streams.
        """
        now = await self.now()
        try:
            return await self.changes(Timestamp(now.time - self.capacity.recent_seconds, 0))
        except PositionExpired:
            return await self.changes(now)

    async def changes(self, after: FeedPosition) -> ChangeFeed:
        """Return the open feed of changes after a position. Raises what ChangeFeed raises."""
        feed = ChangeFeed(self._database, self._graph, after)
        try:
            await feed.open()
        except BaseException:
            await feed.aclose()
            raise
        return feed

    async def checked_position(self, position: FeedPosition | None) -> FeedPosition:
        """Return a position, for None the present. Raises InvalidPosition for a time in the future.

        Also raises Unavailable.
        """
        if isinstance(position, str):
            return position
        now = await self.now()
        if position is not None and position > now:
            raise InvalidPosition("The position is in the future.")
        return now if position is None else position

    async def now(self) -> Timestamp:
        """Return the time of the latest snapshot. Raises Unavailable."""
        with translated_errors():
            return await self._reads.commands.now()

    async def position_of(self, snapshot: Snapshot) -> str:
        """Return the position from which the change feed continues a document. Raises Unavailable.

        It is the present one if the document needed no reads.
        """
        return self.positions.encode(snapshot.time or await self.now())

    async def oldest_retained_time(self) -> Timestamp | None:
        """Return the time after which all changes are kept. Raises Unavailable or Overloaded.

        None on a cluster of shards, and for a user without the role `clusterMonitor`.
        """
        async with self.bulkheads.small_requests:
            with translated_errors():
                try:
                    with pymongo.timeout(_STATUS_SECONDS):
                        status = await self._database.command({"serverStatus": 1, "oplog": 1})
                except OperationFailure as error:
                    if error.code == _UNAUTHORIZED:
                        return None
                    raise
        time: Timestamp | None = status.get("oplog", {}).get("earliestOptime")
        return time

    async def write(
        self,
        writes: Sequence[Write],
        key: IdempotencyKey | None = None,
        *,
        author: str | None = None,
        client: str | None = None,
        rolls_back: bool = False,
    ) -> list[WriteResult]:
        """Apply the writes of one request in order, all or none; return the result of each.

        A write that has begun is completed even if its caller is cancelled. key: executes the
        writes once within a day; a repeated call returns the result of the first one that
        succeeded, or raises IdempotencyKeyReused if its fingerprint differs. author: the id of the
        principal that sent the request, None if it is not known. client: its network, for its share
        of the heavy requests. rolls_back: undoes everything at the end; no resource then gets the
        ids of the new ones. Raises Unavailable: then the writes may be in effect. Raises other
        RequestErrors: then nothing is. NotFound has the pointer to the resource, or to the targets
        of a linkage.
        """
        request = WriteRequest(writes, key, author, rolls_back=rolls_back)
        return await self._run(request, client)

    def row_import(self, author: str | None, client: str | None, *, rolls_back: bool) -> RowImport:
        """Return what writes the rows of a file, each batch as `write` does.

        author, client: as for `write`. rolls_back: stores nothing; rows see what the earlier ones
        would have stored.
        """

        async def run(batch: RowBatch, is_refusable: bool) -> list[WriteResult]:
            return await self._run(batch, client, is_refusable=is_refusable)

        memory = RowMemory(self._graph, self._database.codec_options)
        return RowImport(run, memory, author, rolls_back=rolls_back)

    async def _run(
        self, request: WriteRequest, client: str | None, *, is_refusable: bool = True
    ) -> list[WriteResult]:
        if not self._disk_space.is_enough:
            raise DiskFull(
                f"The disk of the database has less than {RESERVE_BYTES // 2**20} MB of free "
                "space. Nothing was changed. Resources can still be read."
            )
        bulkheads = self.bulkheads
        slots, client = (
            (bulkheads.heavy_requests, client)
            if request.is_large
            else (bulkheads.small_requests, None)
        )
        await slots.acquire(client, is_refusable=is_refusable)
        # The slot is free when the writes have ended, even if the caller is cancelled before.
        request.on_end = partial(slots.release, client)
        try:
            return await self._group_commit.write(request)
        except RecordRefused:
            with translated_errors():
                if not await is_declared(self._database, self._graph):
                    self._on_failure(_TYPES_HAVE_CHANGED)
            raise
