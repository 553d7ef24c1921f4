"""Change streams: what was written to a collection, or to a database, since a time."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import PyMongoError

from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.read_commands import aggregate_command
from registry.storage.records import Stage

ChangeEvent: TypeAlias = Mapping[str, Any]
"""A document of a change stream."""

_OPEN_MILLISECONDS = 10_000
"""The time limit to open a cursor, which first finds its place among all changes."""

_TOKEN = re.compile("82([0-9A-F]{8})([0-9A-F]{8})")
"""The beginning of a resume token: the type of a timestamp, its seconds and its counter."""


class ChangesUnavailable(Exception):
    """The changes after a time cannot be read."""


class Events(NamedTuple):
    """The events of one reply. time: that up to which MongoDB has read."""

    events: Sequence[ChangeEvent]
    time: Timestamp


class ChangeStream:
    """The events of a collection, or of the whole database.

    The change streams of the driver do not report how far MongoDB has read; its replies do.

    collection: None for all. stages: of the pipeline, which select events and their fields.
    batch_size: events per reply. is_open: whether a cursor continues after the last reply; callers
    unset it if they have lost events.
    """

    def __init__(
        self, database: Database, collection: str | None, stages: list[Stage], batch_size: int
    ) -> None:
        self.is_open = False
        self._database = database
        self._target: str | int = 1 if collection is None else collection
        self._namespace = "$cmd.aggregate" if collection is None else collection
        self._stages = stages
        self._batch_size = batch_size
        self._session: AsyncIOMotorClientSession | None = None
        self._cursor = 0

    async def read(self, after: Timestamp, milliseconds: int) -> Events:
        """Return the next events, after the last reply or, if none is open, after a time.

        after: the time of what was read before. milliseconds: how long MongoDB waits for an event.
        Raises ChangesUnavailable, or PyMongoError; then no cursor is open.
        """
        command: dict[str, Any] = {
            "getMore": self._cursor,
            "collection": self._namespace,
            "batchSize": self._batch_size,
            "maxTimeMS": milliseconds,
        }
        if not self.is_open:
            if self._session is None:  # a cursor can be read only in the session that has opened it
                client = self._database.client
                self._session = await client.start_session(causal_consistency=False)
            stages = [{"$changeStream": {"startAtOperationTime": _next(after)}}, *self._stages]
            command = aggregate_command(
                self._target,
                stages,
                self._batch_size,
                readConcern={"level": "majority"},
                maxTimeMS=_OPEN_MILLISECONDS,
            )
        self.is_open = False
        reply = await self._database.command(
            command, codec_options=self._database.codec_options, session=self._session
        )
        cursor = reply["cursor"]
        self._cursor = cursor["id"]
        time = _time_of(reply, after)
        self.is_open = True
        return Events(cursor["nextBatch"] if "nextBatch" in cursor else cursor["firstBatch"], time)

    async def close(self) -> None:
        """Close the cursor, in MongoDB too."""
        self.is_open = False
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
