"""Idempotency keys and the results of their requests, which MongoDB keeps for a day.

A result is a record of the unit of work: it is in effect if the writes of its request are. A
request with the same key that another process executes at the same time conflicts with that
transaction, is repeated, and then finds the result.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from registry.jsonapi.changes import Verb, Write
from registry.model.record import Record
from registry.storage.errors import FingerprintMismatch
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import visible_fields
from registry.storage.writes.write_requests import RESULTS, IdempotencyKey, WriteResult

_RETENTION = timedelta(hours=24)
"""The minimum time that a result is kept; MongoDB deletes it about a minute later at most."""

_MERGED = "merged"
"""The field of a result that is there if the request has updated the resource instead of adding
it: whether it has changed it."""


async def prepare(database: Database) -> None:
    """Create the collection, and the index by which MongoDB deletes results that have expired.

    Raises PyMongoError.
    """
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
    """Return the results of a request from what was stored under its key.

    Raises FingerprintMismatch if those are of another request.
    """
    if stored["fingerprint"] != key.fingerprint:
        raise FingerprintMismatch
    pairs = list(zip(writes, stored["result"], strict=True))
    ids = {
        one.target.id: record["_id"]
        for one, record in pairs
        if one.verb is Verb.ADD and one.target.id is not None
    }
    return [
        WriteResult(
            replace(one.with_ids(ids), verb=Verb.UPDATE if _MERGED in record else one.verb),
            record,
            is_changed=record.get(_MERGED, True),
            is_replayed=True,
        )
        for one, record in pairs
    ]
