"""Creation of resources without links: concurrent requests share an insert."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from bson.objectid import ObjectId
from pymongo.errors import (
    ConnectionFailure,
    ExecutionTimeout,
    NetworkTimeout,
    ServerSelectionTimeoutError,
)

from registry.jsonapi.changes import Change
from registry.model.record import WRITE_ID, Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.errors import (
    DUPLICATE_KEY,
    DuplicateValue,
    IdTaken,
    StorageError,
    Unavailable,
    translated_errors,
)
from registry.storage.orphaned_transactions import OrphanedTransactions
from registry.storage.unique_indexes import taken_attribute
from registry.storage.writes.commands import MILLISECONDS, WriteCommands, WriteError
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.new_records import BATCH_LIMITS, new_records
from registry.storage.writes_in_progress import WritesInProgress

_LOCK_MILLISECONDS = 1_000
"""The time limit of a command if attributes are unique. MongoDB then waits for transactions that
have written the same values: the longest delay of the others in the batch; a batch usually takes
10 ms."""

_ATTEMPTS = MILLISECONDS // _LOCK_MILLISECONDS

_MAX_SEPARATE = 16
"""Records of batches that are inserted separately in parallel: each takes a thread."""


class _Blocked(StorageError):
    """A batch has reached its time limit before this record was known to be inserted."""

    def __init__(self, record: Record) -> None:
        super().__init__(record["_id"])
        self.record = record


class Insertions:
    """Creates resources of one type.

    If a transaction that is in progress has written a unique value of a batch, the records that are
    not inserted yet are inserted separately, while later batches proceed.
    """

    def __init__(
        self,
        resource: Resource,
        commands: WriteCommands,
        counters: Counters,
        orphans: OrphanedTransactions,
        writes: WritesInProgress,
    ) -> None:
        self._resource = resource
        self._commands = commands
        self._counters = counters
        self._orphans = orphans
        self._writes = writes
        self._slots = asyncio.Semaphore(_MAX_SEPARATE)
        self._milliseconds = _LOCK_MILLISECONDS if resource.unique_attributes else MILLISECONDS
        self._batcher = Batcher[Change, Record](
            self._insert, name="insertions", limits=BATCH_LIMITS
        )

    async def insert(self, change: Change) -> Record:
        """Store a new resource and return its record.

        Raises IdTaken, DuplicateValue or Unavailable.
        """
        try:
            return await self._batcher.load(change)
        except _Blocked as blocked:
            return await self._writes.begin(self._insert_separately(blocked.record))

    async def close(self) -> None:
        """Wait until the batches under way have ended."""
        await self._batcher.close()

    async def _insert(self, changes: Sequence[Change]) -> Sequence[Record | StorageError]:
        records, write_id = await new_records(self._resource, changes, self._counters), ObjectId()
        for record in records:
            record[WRITE_ID] = write_id
        with translated_errors():
            try:
                errors = await self._insert_all(records)
            except (NetworkTimeout, ServerSelectionTimeoutError):
                raise  # Already timed out: do not retry.
            except ConnectionFailure:
                errors = await self._insert_again(records, may_be_late=True)
            except ExecutionTimeout:
                if not self._resource.unique_attributes:
                    raise
                errors = await self._not_inserted(records)
        return [errors.get(record["_id"], record) for record in records]

    async def _insert_all(self, records: Sequence[Record]) -> dict[int, StorageError]:
        """Insert records; return the error of each that is rejected, by id."""
        reply = await self._commands.insert(records, self._milliseconds)
        if not reply.is_acknowledged:
            raise Unavailable
        return {
            records[index]["_id"]: self._rejection(records[index], error)
            for index, error in reply.errors.items()
        }

    def _rejection(self, record: Record, error: WriteError) -> StorageError:
        if (name := taken_attribute(error, self._resource)) is not None:
            return DuplicateValue(self._resource, name, record[name])
        return IdTaken() if error["code"] == DUPLICATE_KEY else Unavailable()

    async def _insert_again(
        self, records: Sequence[Record], *, may_be_late: bool
    ) -> dict[int, StorageError]:
        """Insert records that a lost command may have inserted.

        may_be_late: whether that command may still be executed. At most one of the commands stores
        a record; the other finds its id or a value taken.
        """
        errors = await self._insert_all(records)
        taken = [id_ for id_, error in errors.items() if not isinstance(error, Unavailable)]
        stored = await self._write_ids(taken)
        for id_ in taken:
            if id_ in stored and stored[id_] == records[0][WRITE_ID]:
                del errors[id_]
            elif id_ not in stored and isinstance(errors[id_], DuplicateValue) and not may_be_late:
                continue
            elif id_ not in stored or stored[id_] is not None:
                # Changed or deleted since, so it is unknown who stored it. If a value is taken, the
                # lost command may store it later, when it is free again.
                errors[id_] = Unavailable()
        return errors

    async def _not_inserted(self, records: Sequence[Record]) -> dict[int, StorageError]:
        """Return the outcome of the records of a command that has reached its time limit."""
        stored = await self._write_ids([record["_id"] for record in records])
        return {
            record["_id"]: _Blocked(record)
            for record in records
            if stored.get(record["_id"]) != record[WRITE_ID]
        }

    async def _insert_separately(self, record: Record) -> Record:
        """Insert a record that may have been inserted already.

        Raises IdTaken, DuplicateValue or Unavailable.
        """
        began = monotonic()
        with translated_errors():
            async with self._slots:
                for _ in range(_ATTEMPTS):
                    with suppress(ExecutionTimeout):
                        errors = await self._insert_again([record], may_be_late=False)
                        for error in errors.values():
                            raise error
                        return record
                    self._orphans.suspect(began)
        raise Unavailable

    async def _write_ids(self, ids: Sequence[int]) -> dict[int, ObjectId | None]:
        """Return the `write_id` of those of the records that are stored, by id."""
        found = await self._commands.find(ids, {WRITE_ID: True})
        return {record["_id"]: record.get(WRITE_ID) for record in found}
