"""Read commands: each shows the database at one point in time (read concern "snapshot")."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCommandCursor
from pymongo.errors import (
    ConnectionFailure,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.topology_description import TopologyDescription

from registry.model.record import Record
from registry.storage.mongo.change_streams import ChangeStream
from registry.storage.mongo.client import Database
from registry.storage.mongo.command_durations import observed
from registry.storage.mongo.session_pool import SessionPool
from registry.storage.records import ONE_BATCH, Stage

Command: TypeAlias = dict[str, Any]
"""A `find` or `aggregate` command."""

RunCommand: TypeAlias = Callable[[Command], Awaitable[list[Record]]]
"""Returns what a command finds, at the point in time of the document. Raises PyMongoError."""

Session: TypeAlias = AsyncIOMotorClientSession

_Reply = TypeVar("_Reply")

_Primary: TypeAlias = list[tuple[Any, Any]]
"""The address and the election id of a primary; empty while there is none."""

_LOOKUP_MILLISECONDS = 10_000
"""The time limit of commands that have none of their own; shorter than that of the connection."""

_STREAM_MILLISECONDS = 300_000
"""The time limit of a whole stream. MongoDB keeps the snapshots of five minutes by default."""

_SNAPSHOT_UNAVAILABLE = 246
"""MongoDB's error code for a read at a time before its collection or index was created."""


@dataclass(slots=True)
class PointInTime:
    """The point in time of a document: that of its first read, or of the write it shows.

    time: None until the first read has returned. Until then, no other read may begin.
    """

    time: Timestamp | None = None


class Found(NamedTuple):
    """The records that a command has found. time: when the database was in this state."""

    records: list[Record]
    time: Timestamp


class ReadCommands:
    """The read commands of one database. The methods raise PyMongoError.

    time: that of the snapshot to read; None for the latest, which has every write acknowledged
    before the call, whichever service or process sent it. session: that of a `cancellable_session`;
    None for commands that end soon by themselves.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._latest = _LatestSnapshot(database)
        self._sessions = SessionPool(database)

    async def close(self) -> None:
        """End the sessions."""
        await self._sessions.close()

    async def find(
        self,
        collection: str,
        query: Mapping[str, Any],
        projection: Mapping[str, Any],
        time: Timestamp | None = None,
        **options: Any,
    ) -> Found:
        """Return all records of a query. options: those of the command."""
        arguments = {"filter": query, "projection": projection, "batchSize": ONE_BATCH}
        return await self.run({"find": collection, **arguments, **options}, time)

    async def aggregate(
        self, collection: str, stages: list[Stage], time: Timestamp | None = None
    ) -> Found:
        """Return all records of an aggregation pipeline."""
        arguments = {"pipeline": stages, "cursor": {"batchSize": ONE_BATCH}}
        return await self.run({"aggregate": collection, **arguments}, time)

    async def run(
        self, command: Command, time: Timestamp | None = None, session: Session | None = None
    ) -> Found:
        """Return all records that a command finds."""
        command.setdefault("maxTimeMS", _LOOKUP_MILLISECONDS)
        while time is None:
            primary = self._latest.primary()
            found = await self._run(command, await self._latest.read_concern(primary), session)
            if primary == self._latest.primary():
                return found
            # Elected meanwhile: the former primary may not have known of the latest writes.
        return await self._run(command, _read_concern_at(time), session)

    async def stream(
        self, command: Command, time: Timestamp, session: Session | None = None
    ) -> AsyncIOMotorCommandCursor[dict[str, Any]]:
        """Return a cursor on what a command finds; the caller closes it.

        Without a time limit in the command, it ends after five minutes, with its snapshot.
        """
        command.setdefault("maxTimeMS", _STREAM_MILLISECONDS)
        command["readConcern"] = _read_concern_at(time)
        options = self._database.codec_options
        opening = self._database.cursor_command(command, codec_options=options, session=session)
        return await observed(next(iter(command)), opening)

    @asynccontextmanager
    async def cancellable_session(self) -> AsyncIterator[Session]:
        """Yield a session whose commands MongoDB ends when the caller is cancelled.

        Otherwise, each would occupy a thread until its time limit. A user that may run commands
        may also end its own (`killSessions`).
        """
        async with self._sessions.session() as session:
            try:
                yield session
            except asyncio.CancelledError:
                command = {"killSessions": [session.session_id]}
                with suppress(PyMongoError):  # the time limit then ends them
                    await self._database.client.admin.command(command)
                raise

    async def now(self) -> Timestamp:
        """Return the time of the latest snapshot."""
        return (await self.find("counters", {}, {"_id": True}, limit=1)).time

    def changes(self, collection: str, time: Timestamp) -> ChangeStream:
        """Return the changes of a collection after a time."""
        return ChangeStream(self._database, collection, time)

    @property
    def is_sharded(self) -> bool:
        """Whether the database is on a cluster of shards."""
        return self._latest.topology().topology_type_name in {"Sharded", "LoadBalanced"}

    async def _run(
        self, command: Command, read_concern: Mapping[str, Any], session: Session | None
    ) -> Found:
        """Return the records that a command finds, which is sent again if its connection is lost.

        A cursor of motor takes a call for each record: 100 us more CPU for a batch of 32 reads, 400
        us for one of 12 pages.
        """
        command["readConcern"] = read_concern
        reply = await _repeated(partial(self._send, command, session))
        if not reply["id"]:
            return Found(reply["firstBatch"], reply["atClusterTime"])
        # Too large for one reply.
        name = command.get("find") or command["aggregate"]
        await self._database.command({"killCursors": name, "cursors": [reply["id"]]})
        cursor = await self.stream(command, reply["atClusterTime"], session)
        cursor.batch_size(ONE_BATCH)
        records: list[Record] = []
        while some := await cursor.to_list(ONE_BATCH):
            records += some
        return Found(records, reply["atClusterTime"])

    async def _send(self, command: Command, session: Session | None) -> dict[str, Any]:
        database = self._database
        sent = database.command(command, codec_options=database.codec_options, session=session)
        reply = await observed(next(iter(command)), sent)
        cursor: dict[str, Any] = reply["cursor"]
        # Missing if there is no such collection, for example because it was dropped.
        time = command["readConcern"].get("atClusterTime", reply["operationTime"])
        cursor.setdefault("atClusterTime", time)
        return cursor


class _LatestSnapshot:
    """The read concern that shows all acknowledged writes, also right after an election.

    A snapshot of a new primary may be older than the writes that its predecessor acknowledged,
    until the majority confirms the election. So the first read from a primary is preceded by
    `hello`, and snapshots are not older than what it had written then. A mongos has no election; it
    knows of the writes that services have sent through it, and of others with a delay.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._topology: TopologyDescription | None = None
        self._primary: _Primary = []
        self._confirmed: _Primary | None = None
        self._read_concern: Mapping[str, Any] = {}

    def topology(self) -> TopologyDescription:
        """Return what the driver knows of the servers."""
        # Motor's annotations take this property for a method.
        return self._database.client.topology_description  # type: ignore[return-value]

    def primary(self) -> _Primary:
        """Return what identifies the current primary and its election."""
        topology = self.topology()
        if topology is not self._topology:
            servers = topology.server_descriptions().values()
            self._primary = [(one.address, one.election_id) for one in servers if one.is_writable]
            self._topology = topology
        return self._primary

    async def read_concern(self, primary: _Primary) -> Mapping[str, Any]:
        """Return the read concern for a read from this primary."""
        if primary != self._confirmed:
            hello = await _repeated(partial(self._database.command, "hello"))
            written = hello.get("lastWrite")
            after = {"afterClusterTime": written["opTime"]["ts"]} if written else {}
            self._read_concern = {"level": "snapshot", **after}
            self._confirmed = primary
        return self._read_concern


async def _repeated(send: Callable[[], Awaitable[_Reply]]) -> _Reply:
    """Return the reply to a command, which is sent again if its connection is lost."""
    try:
        return await send()
    except (ServerSelectionTimeoutError, NetworkTimeout):
        raise  # the time to wait is over
    except (ConnectionFailure, OperationFailure) as error:
        is_lost = isinstance(error, ConnectionFailure)
        if not is_lost and getattr(error, "code", None) != _SNAPSHOT_UNAVAILABLE:
            raise
    return await send()


def _read_concern_at(time: Timestamp) -> Mapping[str, Any]:
    return {"level": "snapshot", "atClusterTime": time}
