"""Creation of resources without links: concurrent requests share an insert."""

from collections.abc import Sequence

from bson.objectid import ObjectId
from pymongo.errors import ConnectionFailure, NetworkTimeout, ServerSelectionTimeoutError

from registry.jsonapi.request_documents import Change
from registry.model.record import WRITE_ID, Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.errors import IdTaken, StorageError, Unavailable, translated_errors
from registry.storage.writes.commands import WriteCommands
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.new_records import BATCH_LIMITS, new_records

_DUPLICATE_KEY = 11000


class Insertions:
    """Creates resources of one type."""

    def __init__(self, resource: Resource, commands: WriteCommands, counters: Counters) -> None:
        self._resource = resource
        self._commands = commands
        self._counters = counters
        self._batcher = Batcher[Change, Record](
            self._insert, name="insertions", limits=BATCH_LIMITS
        )

    async def insert(self, change: Change) -> Record:
        """Store a new resource and return its record. Raises IdTaken or Unavailable."""
        return await self._batcher.load(change)

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
                errors = await self._insert_again(records, write_id)
        return [errors.get(record["_id"], record) for record in records]

    async def _insert_all(self, records: Sequence[Record]) -> dict[int, StorageError]:
        """Insert records; return the error of each that is rejected, by id."""
        reply = await self._commands.insert(records)
        if not reply.is_acknowledged:
            raise Unavailable
        return {
            records[index]["_id"]: IdTaken() if code == _DUPLICATE_KEY else Unavailable()
            for index, code in reply.errors.items()
        }

    async def _insert_again(
        self, records: Sequence[Record], write_id: ObjectId
    ) -> dict[int, StorageError]:
        """Insert records after a command was lost, which may have been or may yet be executed.

        At most one of the commands stores a record; the other finds its id taken.
        """
        errors = await self._insert_all(records)
        taken = [id_ for id_, error in errors.items() if isinstance(error, IdTaken)]
        stored = await self._commands.find(taken, {WRITE_ID: True})
        stored_ids = {record["_id"]: record.get(WRITE_ID) for record in stored}
        for id_ in taken:
            if id_ not in stored_ids or stored_ids[id_] not in {write_id, None}:
                errors[id_] = Unavailable()  # changed or deleted since: unknown who stored it
            elif stored_ids[id_] == write_id:
                del errors[id_]
        return errors
