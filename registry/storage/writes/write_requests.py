"""Requests to write, and their results, which MongoDB keeps for a day under idempotency keys.

A kept result is a record of the unit of work: it is in effect if the writes of its request are. A
request with the same key that another process executes at the same time conflicts with that
transaction, is repeated, and then finds the result.
"""

import asyncio
from collections.abc import Callable, Sequence
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
from registry.storage.writes.identity_map import RESULTS, RecordKey

_MAX_SMALL = 100
"""Resources that a small request names. A larger one runs alone, as it would delay its group."""

_RETENTION = timedelta(hours=24)
"""The minimum time that a result is kept; MongoDB deletes it about a minute later at most."""

_MERGED = "merged"
"""The field that only results of additions which became updates have: whether the resource was
changed."""


@dataclass(slots=True)
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

    writes: with placeholders for what they create. author: the id of the principal that sent it,
    None if it is not known. key: that under which the results are stored. rolls_back: whether
    nothing is stored in the end. size: the number of resources that it names. is_large: whether its
    transaction may take long. changes_links: whether it may change links. is_alone: whether it has
    a transaction of its own. done: its results, or why there are none. arrived: when, in seconds of
    `time.perf_counter`. conflicts_since: when it has conflicted first, in seconds of
    `time.monotonic`. on_end: called when nothing more is done for it.
    """

    __slots__ = (
        "arrived",
        "author",
        "changes_links",
        "conflicts_since",
        "done",
        "is_alone",
        "is_large",
        "key",
        "on_end",
        "rolls_back",
        "size",
        "writes",
    )

    on_end: Callable[[], None]

    def __init__(
        self,
        writes: Sequence[Write],
        key: IdempotencyKey | None,
        author: str | None,
        *,
        rolls_back: bool,
    ) -> None:
        self.writes = writes
        self.author = author
        self.key = key
        self.rolls_back = rolls_back
        self.size = sum([write.size for write in writes])
        self.changes_links = any(write.changes_links for write in writes)
        self.is_large = self.size > _MAX_SMALL
        self.is_alone = self.is_large or rolls_back
        self.done: asyncio.Future[list[WriteResult]] = asyncio.get_running_loop().create_future()
        self.arrived = perf_counter()
        self.conflicts_since: float | None = None

    def end(self, outcome: list[WriteResult] | Exception) -> None:
        """Return the results to the caller, or raise an error there, unless it has left."""
        if self.done.done():
            pass
        elif isinstance(outcome, list):
            self.done.set_result(outcome)
        else:
            self.done.set_exception(outcome)
        self.on_end()


Outcome: TypeAlias = list[WriteResult] | RequestError | None
"""What becomes of a request in a transaction: its results, why it is refused, or None if it has to
wait for another transaction."""


async def prepare_results(database: Database) -> None:
    """Create the index by which MongoDB deletes expired results. Raises PyMongoError."""
    await database[RESULTS].create_index("expires", expireAfterSeconds=0)


def new_result(key: IdempotencyKey, results: Sequence[WriteResult]) -> Record:
    """Return the record with the results of a request: what its response shows, and the ids."""
    stored: list[Record] = []
    for result in results:
        write = result.write
        fields = (ID, *(visible_fields(write.resource) if write.is_shown else ()))
        shown = {name: result.record[name] for name in fields if name in result.record}
        if write.merges and write.verb is Verb.UPDATE:
            shown[_MERGED] = result.is_changed
        stored.append(shown)
    expires = datetime.now(UTC) + _RETENTION
    return {ID: key.id, "fingerprint": key.fingerprint, "expires": expires, "result": stored}


def replayed(key: IdempotencyKey, stored: Record, writes: Sequence[Write]) -> list[WriteResult]:
    """Return the results that are stored under a key. Raises IdempotencyKeyReused."""
    if stored["fingerprint"] != key.fingerprint:
        raise IdempotencyKeyReused
    pairs = list(zip(writes, stored["result"], strict=True))
    ids = {write.target.id: record[ID] for write, record in pairs if write.verb is Verb.ADD}
    results: list[WriteResult] = []
    for write, record in pairs:
        is_merged = _MERGED in record
        executed = (replace(write, verb=Verb.UPDATE) if is_merged else write).with_ids(ids)
        is_changed = record.get(_MERGED, True)
        results.append(WriteResult(executed, record, is_changed, is_replayed=True))
    return results
