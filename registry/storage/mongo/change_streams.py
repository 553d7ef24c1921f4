"""Change streams: which records were stored in a collection or deleted, since a time."""

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

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


class ChangeStream:
    """The changes of a collection after a time, read up to the times of snapshots.

    The change streams of the driver do not report how far MongoDB has read; its replies do.

    time: `read` returns the changes after it, and moves it.
    """

    def __init__(self, database: Database, collection: str, time: Timestamp) -> None:
        self.time = time
        self._database = database
        self._collection = collection
        self._session: AsyncIOMotorClientSession | None = None
        self._cursor = 0
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
        session, self._session = self._session, None
        self._is_intact = False
        if session:
            with suppress(PyMongoError):  # MongoDB closes cursors that are not used for a while
                command = {"killCursors": self._collection, "cursors": [self._cursor]}
                await self._database.command(command, session=session)
            await session.end_session()

    async def _read(
        self, until: Timestamp, max_events: int, open_seconds: float
    ) -> Mapping[int, int]:
        changes, events = Counter[int](), 0
        deadline = monotonic() + open_seconds + _LAG_SECONDS
        is_intact, self._is_intact = self._is_intact, False
        while True:
            reply = await (self._get_more() if is_intact else self._open(open_seconds))
            cursor, is_intact = reply["cursor"], True
            self._cursor = cursor["id"]
            batch = cursor["nextBatch"] if "nextBatch" in cursor else cursor["firstBatch"]
            for event in batch:
                _add(event, changes)
            events += len(batch)
            time = _time_of(reply, self.time)
            # A batch of so many events may end within a transaction.
            if time >= until and len(batch) < _BATCH_SIZE:
                self.time, self._is_intact = time, True
                return changes
            if events > max_events or monotonic() > deadline:
                raise ChangesUnavailable

    async def _open(self, seconds: float) -> Mapping[str, Any]:
        if self._session is None:  # a cursor can be read only in the session that has opened it
            client = self._database.client
            self._session = await client.start_session(causal_consistency=False)
        stages = [{"$changeStream": {"startAtOperationTime": _next(self.time)}}, *_STAGES]
        command = aggregate_command(
            self._collection,
            stages,
            _BATCH_SIZE,
            readConcern={"level": "majority"},
            maxTimeMS=max(1, round(seconds * 1_000)),
        )
        return await self._database.command(command, session=self._session)

    async def _get_more(self) -> Mapping[str, Any]:
        command = {
            "getMore": self._cursor,
            "collection": self._collection,
            "batchSize": _BATCH_SIZE,
            "maxTimeMS": _AWAIT_MILLISECONDS,
        }
        return await self._database.command(command, session=self._session)


def _add(event: Mapping[str, Any], changes: Counter[int]) -> None:
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
