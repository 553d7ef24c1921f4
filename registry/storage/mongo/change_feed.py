"""Change streams of MongoDB, and the change feed of all types in the order of the commits.

Clients keep positions in the feed as opaque strings.
"""

import logging
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from bson.codec_options import CodecOptions
from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure, PyMongoError

from registry.jsonapi.changes import ChangedRecord, Verb
from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidPosition, PositionExpired, Unavailable
from registry.model.attributes import utc_text
from registry.model.graph import Graph
from registry.model.implicit_attributes import UPDATED_AT, UPDATED_BY
from registry.model.record import LAST_WRITE, Record
from registry.model.resource_type import ResourceType
from registry.offloading import in_chunks
from registry.storage.mongo.mongo_client import Database, reason_of
from registry.storage.mongo.read_commands import aggregate_command
from registry.storage.records import Stage, invalid_fields

_log = logging.getLogger("registry")

_OPEN_MILLISECONDS = 10_000
"""The time limit to open a cursor, which first finds its place among all changes."""

_TOKEN = re.compile("82([0-9A-F]{8})([0-9A-F]{8})")
"""The beginning of a resume token: the type of a timestamp, its seconds and its counter."""


class ChangesUnavailable(Exception):
    """The changes after a time cannot be read."""


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

    async def read(self, after: Timestamp, milliseconds: int) -> tuple[Sequence[Record], Timestamp]:
        """Return the events of the next reply, and the time up to which MongoDB has read.

        after: the time of what was read before, where a new cursor begins. milliseconds: how long
        MongoDB waits for an event. Raises ChangesUnavailable, or PyMongoError; then no cursor is
        open.
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
        return cursor.get("nextBatch", cursor.get("firstBatch", ())), time

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


_VERBS = {
    "insert": Verb.ADD,
    "update": Verb.UPDATE,
    "replace": Verb.UPDATE,
    "delete": Verb.REMOVE,
}

_BATCH_SIZE = 1_000
"""Events per reply, which take some milliseconds to decode."""

_WAIT_MILLISECONDS, _CHECK_MILLISECONDS = 500, 1
"""How long MongoDB waits for a first change, and for another one that follows it."""

_HISTORY_LOST = 286
"""MongoDB's error code for a change stream from a time whose changes are no longer kept."""


ClusterTime: TypeAlias = Timestamp
"""A time in the order of all commits of a database."""


class Commit(NamedTuple):
    """What one transaction, or one write outside of transactions, has changed."""

    time: Timestamp
    changes: list[ChangedRecord]


class ChangeFeed:
    """Reads commits in order. time: all commits up to it were returned; `read` advances it.

    It continues by itself after MongoDB has restarted or elected another primary. A change stream
    for each collection, as the index of ids has it, would not tell the order of their changes.
    """

    def __init__(self, database: Database, graph: Graph, time: Timestamp) -> None:
        self.time = time
        self._resources = {resource.collection: resource for resource in graph.writable}
        self._stream = ChangeStream(database, None, _stages(graph), _BATCH_SIZE)
        self._incomplete: Commit | None = None  # more of its changes may follow

    async def read(self) -> list[Commit]:
        """Return the next commits; empty after half a second without any.

        Raises PositionExpired if it is no longer kept; or Unavailable, after which the next call
        continues.
        """
        if not self._stream.is_open:
            self._incomplete = None
        try:
            wait = _CHECK_MILLISECONDS if self._incomplete else _WAIT_MILLISECONDS
            events, time = await self._stream.read(self.time, wait)
            further: Sequence[Record] = ()
            if events:
                further, time = await self._stream.read(self.time, _CHECK_MILLISECONDS)
        except ChangesUnavailable as error:
            raise Unavailable from error
        except PyMongoError as error:
            if isinstance(error, OperationFailure) and error.code == _HISTORY_LOST:
                raise PositionExpired from error
            _log.warning("The change feed waits for MongoDB: %s", reason_of(error))
            raise Unavailable from error
        self._stream.is_open = False  # until the events are in commits
        commits = await self._commits([*events, *further])
        # Only the end of the stream is certainly not within a transaction.
        self._incomplete = commits.pop() if further else None
        if commits:
            self.time = commits[-1].time
        if not further:
            self.time = max(self.time, _before(time))
        self._stream.is_open = True
        return [one for one in commits if one.changes]

    async def close(self) -> None:
        """Close the change stream."""
        await self._stream.close()

    async def _commits(self, events: Sequence[Record]) -> list[Commit]:
        """Return the commits of events; the first may continue the incomplete one."""
        commits = [self._incomplete] if self._incomplete else []
        async for some in in_chunks(events):
            for time, of_commit in groupby(some, _CLUSTER_TIME):
                if not commits or commits[-1].time != time:
                    commits.append(Commit(time, []))
                changes = (self._changed_record(event) for event in of_commit)
                commits[-1].changes.extend(change for change in changes if change)
        return commits

    def _changed_record(self, event: Record) -> ChangedRecord | None:
        """Return the change of a resource in an event; None if there is none."""
        resource, id_ = self._resources[event["ns"]["coll"]], event["documentKey"]["_id"]
        if not isinstance(id_, int):
            return None
        kind, names = event["operationType"], _field_names(resource)
        if kind == "update":
            description = event["updateDescription"]
            removed = dict.fromkeys(description["removedFields"])
            sent = removed | description.get("updatedFields", {})
            fields = {name: sent[name] for name in names if name in sent}
            if fields.keys() <= {*_AUTHORSHIP}:
                return None
        elif kind == "delete":
            fields = {}
        else:
            document: Record = event.get("fullDocument") or {}
            fields = {name: document.get(name) for name in names}
        author, written = fields.get(UPDATED_BY), fields.pop(LAST_WRITE, None)
        if kind == "update" and isinstance(written, str):  # else of an earlier change
            author = written.partition(" ")[2]
        # Other programs may have written them.
        for name in invalid_fields(resource, fields, fields):
            del fields[name]
        time = utc_text(event["wallTime"])
        return ChangedRecord(_VERBS[kind], resource, id_, fields, time, author)


_AUTHORSHIP = (UPDATED_AT, UPDATED_BY, LAST_WRITE)
"""The stored fields that tell who has changed a record, and when."""

_CLUSTER_TIME = itemgetter("clusterTime")


def _stages(graph: Graph) -> list[Stage]:
    """Return the stages that select the changes of resources, and what followers may see."""
    resources = graph.writable
    names = dict.fromkeys(name for one in resources for name in _field_names(one))
    selected: dict[str, Any] = {
        "operationType": {"$in": [*_VERBS]},
        "ns.coll": {"$in": [one.collection for one in resources]},
    }
    shown = (
        *("operationType", "ns.coll", "documentKey._id", "clusterTime", "wallTime"),
        "updateDescription.removedFields",
        *(f"updateDescription.updatedFields.{name}" for name in names),
        *(f"fullDocument.{name}" for name in names),
    )
    return [{"$match": selected}, {"$project": dict.fromkeys(shown, True)}]


def _field_names(resource: ResourceType) -> tuple[str, ...]:
    """Return the stored fields that are sent, in any form."""
    writable = (name for name in resource.attributes if name in resource.writable)
    return (*writable, *(link.foreign_key for link in resource.links), *_AUTHORSHIP)


def _before(time: Timestamp) -> Timestamp:
    """Return the time before another one, at which changes of other shards may still follow."""
    return Timestamp(time.time, time.inc - 1) if time.inc else Timestamp(time.time - 1, 2**32 - 1)


_POSITION = struct.Struct(">BII4s")
"""The version of the format, the seconds and the counter of a time, and the database."""

_POSITION_VERSION, _CHECKSUM_BYTES = 1, 5

_POSITION_LENGTH = (_POSITION.size + _CHECKSUM_BYTES) * 4 // 3
"""Characters of a position: whole groups of three bytes, which base64 writes in one way only."""


class Positions:
    """The positions of one database.

    A position is a cluster time, so it lies between two transactions. database: a digest of what no
    other database has.
    """

    def __init__(self, database: bytes) -> None:
        self._database = database

    @classmethod
    async def of(cls, database: Database, collection: str) -> "Positions":
        """Return those of a database, known by a collection that it keeps. Raises PyMongoError."""
        plain = database.with_options(CodecOptions())  # by default, a UUID is read as bytes
        cursor = await plain.list_collections(filter={"name": collection})
        (found,) = await cursor.to_list(None)
        identity = bytes(found["info"]["uuid"]) + database.name.encode()
        return cls(sha256(identity).digest()[:4])

    def encode(self, time: Timestamp) -> str:
        """Return the position after all changes up to a time."""
        return _encoded(time, self._database)

    def decode(self, position: str) -> Timestamp:
        """Return the time of a position. Raises InvalidPosition."""
        try:
            data = urlsafe_b64decode(position) if len(position) == _POSITION_LENGTH else b""
        except ValueError:
            data = b""
        content = data[: _POSITION.size]
        if not data or data[_POSITION.size :] != _checksum(content):
            raise InvalidPosition(f"{quoted(position)} is not a complete position.")
        version, seconds, counter, database = _POSITION.unpack(content)
        if version != _POSITION_VERSION or database != self._database:
            raise InvalidPosition(f"{quoted(position)} is a position of another database.")
        return Timestamp(seconds, counter)


@lru_cache(maxsize=64)  # reads share their times
def _encoded(time: Timestamp, database: bytes) -> str:
    content = _POSITION.pack(_POSITION_VERSION, time.time, time.inc, database)
    return urlsafe_b64encode(content + _checksum(content)).decode()


def _checksum(content: bytes) -> bytes:
    return sha256(content).digest()[:_CHECKSUM_BYTES]
