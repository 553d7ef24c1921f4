"""Idempotency keys and the results of their requests, which MongoDB keeps for a day.

A result is stored in the transaction of its request: both are in effect, or neither is. A request
with the same key that another process executes at the same time conflicts with that transaction,
is repeated, and then finds the result.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo.errors import DocumentTooLarge

from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.storage.errors import FingerprintMismatch, StoredResultTooLarge
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.transactions import Transaction
from registry.storage.records import visible_fields

_RETENTION = timedelta(hours=24)
"""The minimum time that a result is kept; MongoDB deletes it about a minute later at most."""

_COLLECTION = "idempotency_keys"

MERGED = "merged"
"""The field of a result that is there if the request has updated the resource instead of adding
it."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What identifies a request that is to be executed once.

    id: a digest of the client and of the key that it has chosen. fingerprint: a digest of the
    request.
    """

    id: bytes
    fingerprint: bytes


async def prepare(database: Database) -> None:
    """Create the collection, and the index by which MongoDB deletes results that have expired.

    Raises PyMongoError.
    """
    await database[_COLLECTION].create_index("expires", expireAfterSeconds=0)


class StoredResults:
    """The results of requests with keys, as one transaction reads and writes them."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._known: dict[bytes, dict[str, Any]] = {}
        self._new: dict[bytes, dict[str, Any]] = {}
        self._expires = datetime.now(UTC) + _RETENTION

    async def load(self, keys: Iterable[IdempotencyKey]) -> None:
        """Load the results that are stored under the keys. Raises PyMongoError."""
        if ids := [key.id for key in keys]:
            found = await self._transaction.find(_COLLECTION, {"_id": {"$in": ids}})
            self._known = {one["_id"]: one for one in found}

    def get(self, key: IdempotencyKey) -> list[Record] | None:
        """Return the result of the request, None if it has not been executed.

        Raises FingerprintMismatch if it is the result of another request.
        """
        document = self._known.get(key.id)
        if document is None:
            return None
        if document["fingerprint"] != key.fingerprint:
            raise FingerprintMismatch
        result: list[Record] = document["result"]
        return result

    def add(self, key: IdempotencyKey, result: Iterable[tuple[ResourceType, Record]]) -> None:
        """Add the result of a request: what it has left of records, with their types."""
        document = {
            "_id": key.id,
            "fingerprint": key.fingerprint,
            "expires": self._expires,
            "result": [_visible_part(resource, record) for resource, record in result],
        }
        self._known[key.id] = self._new[key.id] = document

    def discard(self, key: IdempotencyKey) -> None:
        """Remove the result that was added for a key."""
        if self._new.pop(key.id, None):
            del self._known[key.id]

    async def flush(self) -> None:
        """Store the results that were added.

        Raises PyMongoError, StoredResultTooLarge, or TransactionConflict, usually because a key has
        a result already.
        """
        try:
            await self._transaction.insert(_COLLECTION, list(self._new.values()))
        except DocumentTooLarge as error:
            raise StoredResultTooLarge from error


def _visible_part(resource: ResourceType, record: Record) -> Record:
    fields = ("_id", *visible_fields(resource), MERGED)
    return {name: record[name] for name in fields if name in record}
