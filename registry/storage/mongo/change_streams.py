"""Change streams: what was written to a collection, or to a database, since a time."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import (
    ConnectionFailure,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.read_commands import aggregate_command
from registry.storage.records import Stage

ChangeEvent: TypeAlias = Mapping[str, Any]
"""A document of a change stream."""

_CHANGES = {"insert": 1, "delete": -1}
"""By how much an event changes the number of records with its id."""

_REPLACEMENTS = ["drop", "rename", "dropDatabase", "invalidate"]
"""The events after which the name stands for another collection, or none."""

_STAGES: list[Stage] = [
    {"$match": {"operationType": {"$in": [*_CHANGES, *_REPLACEMENTS]}}},
    {"$project": {"operationType": True, "documentKey._id": True}},
]

_BATCH_SIZE = 2_000
"""Events per reply, which the event loop handles within some milliseconds."""

_AWAIT_MILLISECONDS = 1
"""How long MongoDB waits for further events: the minimum that it supports."""

_LAG_SECONDS = 2.0
"""How long MongoDB may take to report changes that a snapshot shows; no such delay is known."""

_TOKEN = re.compile("82([0-9A-F]{8})([0-9A-F]{8})")
"""The beginning of a resume token: the type of a timestamp, its seconds and its counter."""


class ChangesUnavailable(Exception):
    """The collection was replaced, or its changes are not available, or take too long to read.

    Also if an id is not an integer.
    """


class Events(NamedTuple):
    """The events of one reply. time: that up to which MongoDB has read."""

    events: Sequence[ChangeEvent]
    time: Timestamp


class ChangeStream:
    """The events of a collection, or of the whole database, after a time.

    The change streams of the driver do not report how far MongoDB has read; its replies do.

    collection: None for all. stages: of the pipeline, which select events and their fields.
    batch_size: events per reply. The methods raise PyMongoError.
    """

    def __init__(
        self, database: Database, collection: str | None, stages: list[Stage], batch_size: int
    ) -> None:
        self._database = database
        self._target: str | int = 1 if collection is None else collection
        self._namespace = "$cmd.aggregate" if collection is None else collection
        self._stages = stages
        self._batch_size = batch_size
        self._session: AsyncIOMotorClientSession | None = None
        self._cursor = 0

    async def open(self, after: Timestamp, seconds: float) -> Events:
        """Open a cursor, and return the first events after a time; for an open one as well.

        seconds: the time limit. Raises ChangesUnavailable.
        """
        if self._session is None:  # a cursor can be read only in the session that has opened it
            client = self._database.client
            self._session = await client.start_session(causal_consistency=False)
        stages = [{"$changeStream": {"startAtOperationTime": _next(after)}}, *self._stages]
        command = aggregate_command(
            self._target,
            stages,
            self._batch_size,
            readConcern={"level": "majority"},
            maxTimeMS=max(1, round(seconds * 1_000)),
        )
        return await self._run(command, after)

    async def get_more(self, after: Timestamp, milliseconds: int) -> Events:
        """Return the events that follow. after: the time of those before.

        milliseconds: how long MongoDB waits for one. Raises ChangesUnavailable.
        """
        command = {
            "getMore": self._cursor,
            "collection": self._namespace,
            "batchSize": self._batch_size,
            "maxTimeMS": milliseconds,
        }
        return await self._run(command, after)

    async def close(self) -> None:
        """Close the cursor, in MongoDB too."""
        session, self._session = self._session, None
        cursor, self._cursor = self._cursor, 0
        if session is None:
            return
        try:
            if cursor:
                command = {"killCursors": self._namespace, "cursors": [cursor]}
                with suppress(PyMongoError):  # MongoDB closes cursors that are not used for a while
                    await self._database.command(command, session=session)
        finally:
            await session.end_session()

    async def _run(self, command: dict[str, Any], after: Timestamp) -> Events:
        reply = await self._database.command(
            command, codec_options=self._database.codec_options, session=self._session
        )
        cursor = reply["cursor"]
        self._cursor = cursor["id"]
        events = cursor["nextBatch"] if "nextBatch" in cursor else cursor["firstBatch"]
        return Events(events, _time_of(reply, after))


class IdChanges:
    """The ids that come into use in a collection after a time, and those that go out of use.

    They are read up to the times of snapshots. time: `read` returns the changes after it, and moves
    it.
    """

    def __init__(self, database: Database, collection: str, time: Timestamp) -> None:
        self.time = time
        self._stream = ChangeStream(database, collection, _STAGES, _BATCH_SIZE)
        self._is_intact = False  # whether `time` is where the cursor is

    async def read(
        self, until: Timestamp, max_events: int, open_seconds: float
    ) -> Mapping[int, int]:
        """Return by how much the number of records has changed, by id.

        until: the time of a snapshot, which `time` then reaches or passes. max_events: of them,
        stored and deleted records. open_seconds: the time limit to open a cursor, which reads what
        has happened since the last call. Raises ChangesUnavailable, also beyond these limits, or
        PyMongoError; then, or if the call is cancelled, the next one starts at the same time.
        """
        was_intact = self._is_intact
        try:
            try:
                return await self._read(until, max_events, open_seconds)
            except (ServerSelectionTimeoutError, NetworkTimeout):
                raise  # the time to wait is over
            except (ConnectionFailure, OperationFailure):
                if not was_intact:
                    raise
                # MongoDB has restarted, elected another primary, or closed the cursor.
                return await self._read(until, max_events, open_seconds)
        except OperationFailure as error:
            raise ChangesUnavailable from error

    async def close(self) -> None:
        """Close the cursor, in MongoDB too, until the next call of `read`."""
        self._is_intact = False
        await self._stream.close()

    async def _read(
        self, until: Timestamp, max_events: int, open_seconds: float
    ) -> Mapping[int, int]:
        changes, count = Counter[int](), 0
        deadline = monotonic() + open_seconds + _LAG_SECONDS
        is_intact, self._is_intact = self._is_intact, False
        while True:
            if is_intact:
                events, time = await self._stream.get_more(self.time, _AWAIT_MILLISECONDS)
            else:
                events, time = await self._stream.open(self.time, open_seconds)
            is_intact = True
            for event in events:
                _add(event, changes)
            count += len(events)
            # A batch of so many events may end within a transaction.
            if time >= until and len(events) < _BATCH_SIZE:
                self.time, self._is_intact = time, True
                return changes
            if count > max_events or monotonic() > deadline:
                raise ChangesUnavailable


def _add(event: ChangeEvent, changes: Counter[int]) -> None:
    """Add an event to the changes."""
    id_ = event["documentKey"]["_id"] if event["operationType"] in _CHANGES else None
    if not isinstance(id_, int):
        raise ChangesUnavailable
    changes[id_] += _CHANGES[event["operationType"]]


def _time_of(reply: Mapping[str, Any], after: Timestamp) -> Timestamp:
    """Return how far a reply has read: all events up to this time are in it, or in earlier ones.

    Resume tokens are documented to be strings of hexadecimal digits in the order of the events, but
    not that they begin with the time, in MongoDB's KeyString format. So a token that does not, or
    with a time that cannot be, raises ChangesUnavailable.
    """
    latest: Timestamp = reply["operationTime"]
    digits = _TOKEN.match(str(reply["cursor"]["postBatchResumeToken"]["_data"]))
    if digits:
        time = Timestamp(*(int(half, 16) for half in digits.groups()))
        if after <= time <= max(_next(after), latest):
            return min(time, latest)
    raise ChangesUnavailable


def _next(time: Timestamp) -> Timestamp:
    return Timestamp(time.time, time.inc + 1)
