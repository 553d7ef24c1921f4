"""The change feed of all types: commits in their order, read by the driver's change stream.

- A commit is what one transaction has changed, or one write outside of transactions: the events
  with the same cluster time. It is returned as a whole, once no event of it can follow.
- A read that fails closes the change stream; the next one opens another where the last has ended.
- A position is between two commits: a cluster time (of a document), or a resume token (of the
  feed). Clients cannot read either. Nothing reads what a token contains; tokens are compared as
  texts, which MongoDB documents.
"""

import asyncio
import logging
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

import pymongo
import pymongo.database
from bson.codec_options import CodecOptions
from bson.timestamp import Timestamp
from pymongo.change_stream import ChangeStream
from pymongo.errors import ConnectionFailure, CursorNotFound, OperationFailure, PyMongoError

from registry.jsonapi.change_events import ChangedRecord
from registry.jsonapi.changes import Verb
from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import (
    InternalError,
    InvalidPosition,
    PositionExpired,
    Unavailable,
)
from registry.model.attributes import utc_text
from registry.model.graph import Graph
from registry.model.implicit_attributes import UPDATED_AT, UPDATED_BY
from registry.model.record import LAST_WRITE, Record
from registry.model.resource_type import ResourceType
from registry.storage.mongo.mongo_client import Database, reason_of
from registry.storage.records import Stage

_log = logging.getLogger("registry")

_OPEN_SECONDS = 10.0
"""The time limit to open a change stream, which first finds its place among all changes."""

_MAX_EVENTS = 1_000
"""Events per read, which take some milliseconds to decode."""

_WAIT_MILLISECONDS = 1
"""How long MongoDB waits for a change, the minimum: callers read again after a pause."""

_MAX_CHANGES = 1_000
"""Changes that are returned at once, some 250 kB of events; those of one commit may be more."""

_RETRY_SECONDS = 0.5
"""How long to wait for a database that is unavailable."""

_LOST = {280, 286}
"""MongoDB's error codes ChangeStreamFatalError and ChangeStreamHistoryLost: the changes after the
position are no longer kept."""

_VERBS = {
    "insert": Verb.ADD,
    "update": Verb.UPDATE,
    "replace": Verb.UPDATE,
    "delete": Verb.REMOVE,
}

_AUTHORSHIP = (UPDATED_AT, UPDATED_BY, LAST_WRITE)
"""The stored fields that tell who has changed a record, and when."""

_CLUSTER_TIME = itemgetter("clusterTime")


FeedPosition: TypeAlias = Timestamp | str
"""A place between two commits: the cluster time, or the resume token, of the one before it."""

_TIME = struct.Struct(">II")
"""The seconds and the counter of a cluster time."""

_OF_TIME, _OF_TOKEN = 1, 2
"""The first byte of a position: which kind it is."""

_DATABASE_BYTES, _CHECKSUM_BYTES = 4, 5


class Commit:
    """What one transaction has changed.

    time, token: the two forms of the position after it: its cluster time, and the resume token of
    its last event. encoded: what callers have made of the changes, for each of their audiences.
    """

    __slots__ = ("changes", "encoded", "time", "token")

    def __init__(self, time: Timestamp, token: str, changes: Sequence[ChangedRecord]) -> None:
        self.time, self.token, self.changes = time, token, changes
        self.encoded: dict[Any, bytes] = {}


class ChangeFeed:
    """Reads commits in order.

    position: all commits up to it were returned; a resume token once the feed is open. start: the
    empty commit before the first one, once a feed from a cluster time is open. has_more: whether
    the last read may have left commits that are there already. The methods raise PositionExpired,
    or InternalError for another error that does not go away.
    """

    def __init__(self, database: Database, graph: Graph, after: FeedPosition) -> None:
        self.position = after
        self.start: Commit
        self.has_more = False
        self._database: pymongo.database.Database[Record] = database.delegate
        self._resources = {resource.collection: resource for resource in graph.writable}
        of_resources = {"$in": [*self._resources]}
        self._stages: list[Stage] = [
            {"$match": {"operationType": {"$in": [*_VERBS]}, "ns.coll": of_resources}}
        ]
        self._stream: ChangeStream[Record] | None = None
        self._pending: list[Record] = []  # events of a commit that may have more
        # Motor would take a call in a thread for each event, so the driver is used in one thread.
        self._thread = ThreadPoolExecutor(1, "change-feed")

    async def open(self) -> None:
        """Open the change stream, unless it is open. Also raises Unavailable."""
        await self._run(self._open)

    async def read(self) -> list[Commit]:
        """Return the next commits, with about 1,000 events; an empty list if there are none yet.

        While MongoDB is unavailable, return an empty list after a pause.
        """
        try:
            commits, self._pending, self.position, self.has_more = await self._run(self._read)
        except Unavailable:
            self.has_more = True
            await asyncio.sleep(_RETRY_SECONDS)
            return []
        return [commit for commit in commits if commit.changes]

    async def aclose(self) -> None:
        """Close the change stream, after a read that may still be in progress."""
        closing = self._thread.submit(self._close)
        self._thread.shutdown(wait=False)
        await asyncio.wrap_future(closing)

    async def _run(self, call: Any) -> Any:
        """Run a method in the thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except PyMongoError as error:
            self._pending = []  # they are read again
            self._thread.submit(self._close)
            if isinstance(error, OperationFailure) and error.code in _LOST:
                raise PositionExpired from error
            if _is_temporary(error):
                _log.warning("The change feed waits for MongoDB: %s", reason_of(error))
                raise Unavailable from error
            _log.error("MongoDB refuses the change feed: %s", reason_of(error))
            raise InternalError from error

    def _open(self) -> ChangeStream[Record]:
        # It is not alive after the event of a dropped database, as a restore drops one; unlike
        # resume_after, start_after continues after that.
        if self._stream is None or not self._stream.alive:
            with pymongo.timeout(_OPEN_SECONDS):
                if isinstance(self.position, Timestamp):
                    # Its first reply has no events, but the resume token of this time.
                    first = Timestamp(self.position.time, self.position.inc + 1)
                    start: Any = {"start_at_operation_time": first, "batch_size": 0}
                    with self._database.watch(self._stages, **start) as stream:
                        token = _token(stream.resume_token)
                    self.start, self.position = Commit(self.position, token, ()), token
                self._stream = self._database.watch(
                    self._stages,
                    start_after={"_data": self.position},
                    batch_size=_MAX_EVENTS,
                    max_await_time_ms=_WAIT_MILLISECONDS,
                )
        return self._stream

    def _read(self) -> tuple[list[Commit], list[Record], FeedPosition, bool]:
        """Return commits, events of a further one, the position after them, and `has_more`."""
        stream = self._open()
        events = list(islice(iter(stream.try_next, None), _MAX_EVENTS))
        groups = [list(group) for _, group in groupby(self._pending + events, _CLUSTER_TIME)]
        has_more = len(events) == _MAX_EVENTS
        pending = groups.pop() if has_more else []
        commits = [self._commit(group) for group in groups]
        position = commits[-1].token if commits else self.position
        return commits, pending, position if has_more else _token(stream.resume_token), has_more

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(PyMongoError):  # MongoDB closes cursors that are not used for a while
                stream.close()

    def _commit(self, events: Sequence[Record]) -> Commit:
        """Return the commit of all its events."""
        last, changes = events[-1], map(self._change, events)
        shown = [change for change in changes if change is not None]
        return Commit(last["clusterTime"], _token(last["_id"]), shown)

    def _change(self, event: Record) -> ChangedRecord | None:
        """Return the change of a resource in an event; None if there is none."""
        resource, id_ = self._resources[event["ns"]["coll"]], event["documentKey"]["_id"]
        kind, names = event["operationType"], _field_names(resource)
        if kind == "update":
            description = event["updateDescription"]
            removed = dict.fromkeys(description["removedFields"])
            sent = removed | description.get("updatedFields", {})
            fields = {name: sent[name] for name in names if name in sent}
            if fields.keys() <= {*_AUTHORSHIP}:
                return None
        else:
            document: Record = event.get("fullDocument", {})  # not of a removed one
            fields = {name: document.get(name) for name in names if document}
        author, written = fields.get(UPDATED_BY), fields.pop(LAST_WRITE, None)
        if kind == "update" and written:  # else of an earlier change
            author = written.partition(" ")[2]
        time = utc_text(event["wallTime"])
        return ChangedRecord(_VERBS[kind], resource, id_, fields, time, author)


class RecentCommits:
    """The last commits of a feed. The first one only tells from where on they are complete.

    present: when the last read began that found no further changes, and the position after it.
    """

    def __init__(self, start: Commit, max_changes: int) -> None:
        self._max_changes = max_changes
        self._commits = [start]
        self._size = 0  # changes, but for the first commit
        self.present: tuple[float, FeedPosition] = (0.0, start.token)

    def append(self, commits: Sequence[Commit]) -> None:
        """Keep commits, in place of the oldest ones."""
        most, dropped = len(self._commits) - 1, 0
        self._commits += commits
        self._size += number_of_changes(commits)
        while self._size > self._max_changes and dropped < most:
            dropped += 1
            self._size -= len(self._commits[dropped].changes)
        del self._commits[:dropped]

    def after(self, position: FeedPosition) -> Sequence[Commit] | None:
        """Return the next commits after a position; None if not all of them are kept."""
        form = "time" if isinstance(position, Timestamp) else "token"
        begin = end = bisect_right(self._commits, position, key=attrgetter(form))
        if not begin:
            return None
        size = 0
        while end < len(self._commits) and size < _MAX_CHANGES:
            size += len(self._commits[end].changes)
            end += 1
        return self._commits[begin:end]


def number_of_changes(commits: Sequence[Commit]) -> int:
    """Return the number of changes."""
    return sum(len(commit.changes) for commit in commits)


def _is_temporary(error: PyMongoError) -> bool:
    """Whether the change stream can be opened again later."""
    return (
        isinstance(error, ConnectionFailure | CursorNotFound)
        or error.timeout
        or error.has_error_label("ResumableChangeStreamError")
    )


def _token(resume_token: Any) -> str:
    """Return the text of a resume token, which has nothing else since MongoDB 4.2."""
    text: str = resume_token["_data"]
    return text


def _field_names(resource: ResourceType) -> tuple[str, ...]:
    """Return the stored fields that are sent, in any form."""
    writable = (name for name in resource.attributes if name in resource.writable)
    return (*writable, *(link.foreign_key for link in resource.links), *_AUTHORSHIP)


class Positions:
    """The positions of one database, as texts that only this service reads.

    database: a digest that identifies it, so that positions of another database are refused.
    """

    def __init__(self, database: bytes) -> None:
        self._database = database
        self._last: tuple[FeedPosition | None, str] = (None, "")

    @classmethod
    async def of(cls, database: Database, collection: str) -> "Positions":
        """Return the positions of a database. Raises PyMongoError.

        collection: one that always exists: its UUID identifies the database.
        """
        plain = database.with_options(CodecOptions())  # by default, a UUID is read as bytes
        cursor = await plain.list_collections(filter={"name": collection})
        (found,) = await cursor.to_list(None)
        identity = bytes(found["info"]["uuid"]) + database.name.encode()
        return cls(sha256(identity).digest()[:_DATABASE_BYTES])

    def encode(self, position: FeedPosition) -> str:
        """Return the text of a position."""
        last, text = self._last  # mostly the same object, as reads of a batch share their time
        if position is not last:
            text = self._encoded(position)
            self._last = position, text
        return text

    def _encoded(self, position: FeedPosition) -> str:
        if isinstance(position, Timestamp):
            value = bytes([_OF_TIME]) + _TIME.pack(position.time, position.inc)
        else:
            value = bytes([_OF_TOKEN]) + bytes.fromhex(position)
        content = value + self._database
        return urlsafe_b64encode(content + _checksum(content)).decode().rstrip("=")

    def decode(self, text: str) -> FeedPosition:
        """Return the position of a text. Raises InvalidPosition."""
        try:
            data = urlsafe_b64decode(text + "==")  # more than are missing are ignored
        except ValueError:
            data = b""
        content = data[:-_CHECKSUM_BYTES]
        if not content or data[-_CHECKSUM_BYTES:] != _checksum(content):
            raise InvalidPosition(f"{quoted(text)} is not a complete position.")
        kind, value = content[0], content[1:-_DATABASE_BYTES]
        is_time = kind == _OF_TIME and len(value) == _TIME.size
        if not (is_time or kind == _OF_TOKEN) or not content.endswith(self._database):
            raise InvalidPosition(f"{quoted(text)} is a position of another database.")
        return Timestamp(*_TIME.unpack(value)) if is_time else value.hex().upper()


def _checksum(content: bytes) -> bytes:
    return sha256(content).digest()[:_CHECKSUM_BYTES]
