"""Requests to write, and their results, which MongoDB keeps for a day under idempotency keys.

A kept result is a record of the unit of work: it is in effect if the writes of its request are. A
request with the same key that another process executes at the same time conflicts with that
transaction, is repeated, and then finds the result.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import TypeAlias

from bson.timestamp import Timestamp

from registry.jsonapi.changes import Verb, Write
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import IdempotencyKeyReused
from registry.model.record import ID, Record
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import visible_fields
from registry.storage.writes.identity_map import RecordKey

_MAX_SMALL = 100
"""Resources that a small request names. A larger one runs alone, as it would delay its group."""

_RETENTION = timedelta(hours=24)
"""The minimum time that a result is kept; MongoDB deletes it about a minute later at most."""

_MERGED = "merged"
"""The field that only results of additions which became updates have: whether the resource was
changed."""

RESULTS = "idempotency_keys"
"""The collection of the results of requests with a key, and their type in a RecordKey."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Identifies a request that is to be executed once.

    id: a digest of the client and of the key it has chosen. fingerprint: a digest of the
    request.
    """

    id: bytes
    fingerprint: bytes

    @property
    def record(self) -> RecordKey:
        """The record with the result of the request."""
        return RESULTS, self.id


@dataclass(slots=True)
class WriteResult:
    """The result of a write, its placeholders replaced by ids.

    record: as the write has left it; of a deleted resource, the last one. is_changed: whether the
    write has changed it. time: that of the commit; a snapshot at this time shows the result of the
    write, or that of a later one in the same transaction. is_replayed: whether an earlier request
    with the same idempotency key has written it; the record of an operation without a result then
    has only an id.
    """

    write: Write
    record: Record
    is_changed: bool = True
    time: Timestamp | None = None
    is_replayed: bool = False


class WriteRequest:
    """The writes of one request, which succeed or fail together.

    writes: with placeholders for what they create. key: that under which the results are stored.
    rolls_back: whether nothing is stored in the end. size: the number of resources that it names.
    is_alone: whether it has a transaction of its own. done: its results, or why there are none.
    arrived: when, in seconds of `time.perf_counter`. retries_since, retry_at: since when it is
    tried again and when next, in seconds of `time.monotonic`. pause: the seconds before the retry
    after that.
    """

    __slots__ = (
        "_on_end",
        "arrived",
        "author",
        "done",
        "is_alone",
        "key",
        "pause",
        "retries_since",
        "retry_at",
        "rolls_back",
        "size",
        "writes",
    )

    def __init__(
        self,
        writes: Sequence[Write],
        key: IdempotencyKey | None = None,
        *,
        rolls_back: bool = False,
        on_end: Callable[[], None],
    ) -> None:
        self.writes = writes
        self.author = writes[0].change.author
        self.key = key
        self.rolls_back = rolls_back
        self.size = sum(write.size for write in writes)
        self.is_alone = is_large(writes) or rolls_back
        self.done: asyncio.Future[list[WriteResult]] = asyncio.get_running_loop().create_future()
        self.arrived = perf_counter()
        self.retries_since: float | None = None
        self.retry_at = self.pause = 0.0
        self._on_end = on_end

    def succeed(self, results: list[WriteResult]) -> None:
        """Pass the results to the caller, unless it has left."""
        if not self.done.done():
            self.done.set_result(results)
        self.end()

    def fail(self, error: Exception) -> None:
        """Raise an error in the caller, unless it has left."""
        if not self.done.done():
            self.done.set_exception(error)
        self.end()

    def end(self) -> None:
        """Tell that nothing more is done for the request, once."""
        self._on_end()


Outcome: TypeAlias = list[WriteResult] | RequestError | None
"""What becomes of a request in a transaction: its results, why it is refused, or None if it has to
wait for the next transaction."""


def is_large(writes: Sequence[Write]) -> bool:
    """Whether the writes of a request are a large transaction."""
    return sum(write.size for write in writes) > _MAX_SMALL


def values_to_load(write: Write) -> Iterator[tuple[str, str, Iterable[int]]]:
    """Yield the type, a field and its values for the records that a write needs."""
    id_, resource = write.target.id, write.resource
    own = (id_,) if id_ > 0 else ()
    yield resource.type, ID, own
    for linkage in write.change.linkages:
        relationship = linkage.relationship
        yield relationship.target, ID, (id_ for id_ in linkage.ids if id_ > 0)
        if relationship.to_many and linkage.verb is Verb.UPDATE:
            yield relationship.target, relationship.foreign_key, own
    if write.verb is Verb.REMOVE:
        for relationship in resource.relationships.values():
            if relationship.to_many and not relationship.read_only:
                yield relationship.target, relationship.foreign_key, own


async def prepare_results(database: Database) -> None:
    """Create the index by which MongoDB deletes expired results. Raises PyMongoError."""
    await database[RESULTS].create_index("expires", expireAfterSeconds=0)


def new_result(key: IdempotencyKey, results: Sequence[WriteResult]) -> Record:
    """Return the record with the results of a request."""
    return {
        "_id": key.id,
        "fingerprint": key.fingerprint,
        "expires": datetime.now(UTC) + _RETENTION,
        "result": list(map(_stored_part, results)),
    }


def _stored_part(result: WriteResult) -> Record:
    """Return what is stored of a result: what the response shows, and the id."""
    write = result.write
    fields = ("_id", *(visible_fields(write.resource) if write.is_shown else ()))
    shown = {name: result.record[name] for name in fields if name in result.record}
    is_merged = write.merges and write.verb is Verb.UPDATE
    return shown | {_MERGED: result.is_changed} if is_merged else shown


def replayed(key: IdempotencyKey, stored: Record, writes: Sequence[Write]) -> list[WriteResult]:
    """Return the results that are stored under a key. Raises IdempotencyKeyReused."""
    if stored["fingerprint"] != key.fingerprint:
        raise IdempotencyKeyReused
    pairs = list(zip(writes, stored["result"], strict=True))
    ids = {write.target.id: record[ID] for write, record in pairs if write.verb is Verb.ADD}
    return [
        WriteResult(
            replace(write, verb=Verb.UPDATE).with_ids(ids)
            if _MERGED in record
            else write.with_ids(ids),
            record,
            is_changed=record.get(_MERGED, True),
            is_replayed=True,
        )
        for write, record in pairs
    ]
