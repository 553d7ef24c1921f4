"""The change feed of all types: commits in their order, read by the driver's change stream.

- A commit is what one transaction has changed, or one write outside of transactions: the events
  with the same cluster time. It is returned as a whole, once no event of it can follow.
- A read that fails closes the change stream; the next one opens another where the last has ended.
"""

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import pymongo
import pymongo.database
from bson.timestamp import Timestamp
from pymongo.change_stream import ChangeStream
from pymongo.errors import ConnectionFailure, CursorNotFound, OperationFailure, PyMongoError

from registry.jsonapi.change_events import ChangedRecord
from registry.jsonapi.changes import Verb
from registry.jsonapi.error_types import InternalError, PositionExpired, Unavailable
from registry.model.attributes import utc_text
from registry.model.graph import Graph
from registry.model.implicit_attributes import UPDATED_AT, UPDATED_BY
from registry.model.record import LAST_WRITE, Record
from registry.model.resource_type import ResourceType
from registry.storage.mongo.mongo_client import Database, reason_of
from registry.storage.mongo.positions import FeedPosition
from registry.storage.records import Stage

_log = logging.getLogger("registry")

_OPEN_SECONDS = 10.0
"""The time limit to open a change stream, which first finds its place among all changes."""

_MAX_EVENTS = 1_000
"""Events per read, which take some milliseconds to decode."""

_WAIT_MILLISECONDS = 1
"""How long MongoDB waits for a change, the minimum: callers read again after a pause."""

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


class Commit(NamedTuple):
    """What one transaction has changed. token: the resume token of its last event."""

    time: Timestamp
    token: str
    changes: Sequence[ChangedRecord]

    def is_after(self, position: FeedPosition) -> bool:
        """Whether the commit follows a position."""
        return (self.time if isinstance(position, Timestamp) else self.token) > position


class ChangeFeed:
    """Reads commits in order.

    position: all commits up to it were returned; a resume token once the feed is open. start: what
    precedes the first commit, once a feed from a cluster time is open. has_more: whether the last
    read has left commits that are there already. The methods raise Unavailable, and can then be
    called again; PositionExpired, or InternalError for another error that does not go away.
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
        """Open the change stream, unless it is open."""
        await self._run(self._open)

    async def read(self) -> list[Commit]:
        """Return the commits that have followed, of about 1,000 events; empty if there is none."""
        commits, self._pending, self.position, self.has_more = await self._run(self._read)
        return [commit for commit in commits if commit.changes]

    async def close(self) -> None:
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
