"""Read commands: each shows the database at one point in time (read concern "snapshot")."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias

from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo import MongoClient
from pymongo.errors import (
    ConnectionFailure,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.topology_description import TopologyDescription

from registry.model.record import Record
from registry.storage.mongo.mongo_client import Database, observed
from registry.storage.records import ONE_BATCH, Stage

Command: TypeAlias = dict[str, Any]
"""A `find` or `aggregate` command."""

Session: TypeAlias = AsyncIOMotorClientSession

_Primary: TypeAlias = list[tuple[Any, Any]]
"""The address and the election id of a primary; empty while there is none."""

_LOOKUP_MILLISECONDS = 10_000
"""The time limit of commands that have none of their own; shorter than that of the connection."""

_STREAM_MILLISECONDS = 300_000
"""The time limit of a whole stream. MongoDB keeps the snapshots of five minutes by default."""

SNAPSHOT_UNAVAILABLE = 246
"""MongoDB's error code for a read at a time before its collection or index was created."""


def find_command(
    collection: str, query: Mapping[str, Any], projection: Mapping[str, Any], **options: Any
) -> Command:
    """Return the command for the records that match a query. options: such as `limit`."""
    return {
        "find": collection,
        "filter": query,
        "projection": projection,
        "batchSize": ONE_BATCH,
        **options,
    }


def aggregate_command(
    collection: str | int, stages: list[Stage], batch_size: int = ONE_BATCH, **options: Any
) -> Command:
    """Return the command for the results of a pipeline.

    collection: 1 for the whole database. options: such as `allowDiskUse`.
    """
    cursor = {"batchSize": batch_size}
    return {"aggregate": collection, "pipeline": stages, "cursor": cursor, **options}


class ReadResult(NamedTuple):
    """The records that a command has found. time: when the database was in this state."""

    records: list[Record]
    time: Timestamp


class ReadCommands:
    """Runs read commands in one database. The methods raise PyMongoError.

    time: that of the snapshot to read; None for the latest, which has every write acknowledged
    before the call, whichever service or process sent it. session: that of a `cancellable_session`;
    None for commands that end soon by themselves.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._codec_options = database.codec_options
        self._client: MongoClient[dict[str, Any]] = database.client.delegate
        # The read concern that shows all acknowledged writes, and what it was confirmed for.
        self._latest: Mapping[str, Any] = {}
        self._topology: TopologyDescription | None = None
        self._primary: _Primary | None = None

    async def run(
        self, command: Command, time: Timestamp | None = None, session: Session | None = None
    ) -> ReadResult:
        """Return all records that a command finds."""
        command.setdefault("maxTimeMS", _LOOKUP_MILLISECONDS)
        while True:
            topology = self._client.topology_description
            if time is None and topology is not self._topology:
                await self._confirm(topology)
            command["readConcern"] = self._latest if time is None else _read_concern_at(time)
            reply = await self._send(command, session)
            after = self._client.topology_description
            if time or after is topology or _primary_of(after) == _primary_of(topology):
                break
            # Elected meanwhile: the former primary may not have known of the latest writes.
        # A cursor of motor takes a call for each record: 100 us more CPU for a batch of 32 reads,
        # 400 us for one of 12 pages.
        cursor: dict[str, Any] = reply["cursor"]
        # Without a time if there is no such collection, for example because it was dropped.
        time = cursor.get("atClusterTime") or time or reply["operationTime"]
        if not cursor["id"]:
            return ReadResult(cursor["firstBatch"], time)
        # Too large for one reply.
        kill = {"killCursors": next(iter(command.values())), "cursors": [cursor["id"]]}
        await self.database.command(kill)
        records: list[Record] = []
        async for some in self.stream(command, time, ONE_BATCH, session):
            records += some
        return ReadResult(records, time)

    async def stream(
        self, command: Command, time: Timestamp, batch_size: int, session: Session | None = None
    ) -> AsyncGenerator[list[Record]]:
        """Yield what a command finds, in batches.

        Without a time limit in the command, it ends after five minutes, with its snapshot.
        """
        command.setdefault("maxTimeMS", _STREAM_MILLISECONDS)
        command["readConcern"] = _read_concern_at(time)
        opening = self.database.cursor_command(
            command, codec_options=self._codec_options, session=session
        )
        cursor = await observed(next(iter(command)), opening)
        try:
            cursor.batch_size(batch_size)
            while records := await cursor.to_list(batch_size):
                yield records
        finally:
            await cursor.close()

    @asynccontextmanager
    async def cancellable_session(self) -> AsyncIterator[Session]:
        """Yield a session whose commands MongoDB ends when the caller is cancelled.

        Otherwise, each would occupy a thread until its time limit. Every user of MongoDB may end
        its own commands (`killSessions`).
        """
        client = self.database.client
        async with await client.start_session(causal_consistency=False) as session:
            try:
                yield session
            except asyncio.CancelledError:
                command = {"killSessions": [session.session_id]}
                with suppress(PyMongoError):  # the time limit then ends them
                    await client.admin.command(command)
                raise

    async def now(self) -> Timestamp:
        """Return the time of the latest snapshot."""
        return (await self.run(find_command("counters", {}, {"_id": True}, limit=1))).time

    async def _send(self, command: Command, session: Session | None = None) -> dict[str, Any]:
        """Return the reply to a command, which is sent again if its connection is lost."""
        is_repeated = False
        while True:
            try:
                sent = self.database.command(
                    command, codec_options=self._codec_options, session=session
                )
                return await observed(next(iter(command)), sent)
            except (ServerSelectionTimeoutError, NetworkTimeout):
                raise  # the time to wait is over
            except ConnectionFailure:
                if is_repeated:
                    raise
            except OperationFailure as error:
                if is_repeated or error.code != SNAPSHOT_UNAVAILABLE:
                    raise
            is_repeated = True

    async def _confirm(self, topology: TopologyDescription) -> None:
        """Let `latest` show all acknowledged writes also after an election.

        A snapshot of a new primary may be older than the writes that its predecessor acknowledged,
        until the majority confirms the election. So the first read from a primary is preceded by
        `hello`, and snapshots are not older than what it had written then. A mongos has no
        election; it knows of the writes that services have sent through it, and of others with a
        delay.
        """
        primary = _primary_of(topology)
        if primary != self._primary:
            written = (await self._send({"hello": 1})).get("lastWrite")
            after = {"afterClusterTime": written["opTime"]["ts"]} if written else {}
            self._latest, self._primary = {"level": "snapshot", **after}, primary
        self._topology = topology


def _primary_of(topology: TopologyDescription) -> _Primary:
    servers = topology.server_descriptions().values()
    return [(server.address, server.election_id) for server in servers if server.is_writable]


def _read_concern_at(time: Timestamp) -> Mapping[str, Any]:
    return {"level": "snapshot", "atClusterTime": time}
