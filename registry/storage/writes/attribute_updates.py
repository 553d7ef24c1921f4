"""Updates of attributes alone: concurrent requests share one read and one write."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from math import isqrt

from bson.objectid import ObjectId

from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher, BatchLimits
from registry.storage.errors import StorageError, Unavailable, translated_errors
from registry.storage.orphaned_transactions import OrphanedTransactions
from registry.storage.records import Outcome
from registry.storage.writes.commands import WriteCommands
from registry.storage.writes.optimistic_updates import OptimisticUpdates, RecordUpdates
from registry.storage.writes.record_updates import RecordUpdate, UpdateRequest
from registry.storage.writes_in_progress import WritesInProgress

_MAX_BATCH_SIZE = 256
"""Requests per batch. In batches of one, an update takes 3.3 times the CPU time."""

_MAX_SEPARATE = 16
"""Parts of batches that are written separately in parallel: each takes a thread."""


class AttributeUpdates:
    """Updates the attributes of resources of one type.

    A batch takes two commands: one reads the records, the other writes the results that the service
    has computed. A record is in at most one batch at a time. If one is locked or rejected, the
    unwritten records of the batch are written separately, while later batches proceed. A request
    for a unique attribute is not merged with others for the same record, and its record has a
    statement of its own: a value that is taken rejects nothing else.
    """

    def __init__(
        self,
        resource: Resource,
        commands: WriteCommands,
        orphans: OrphanedTransactions,
        writes: WritesInProgress,
    ) -> None:
        self._resource = resource
        self._updates = OptimisticUpdates(resource, commands)
        self._orphans = orphans
        self._batcher = Batcher[UpdateRequest, Outcome | RecordUpdate](
            self._write_batch,
            name="attribute_updates",
            limits=BatchLimits(_MAX_BATCH_SIZE, max_in_flight=2),
        )
        self._in_progress: dict[int, RecordUpdate] = {}
        self._slots = asyncio.Semaphore(_MAX_SEPARATE)
        self._writes = writes

    async def update(self, request: UpdateRequest) -> Record | None:
        """Update a resource and return its record, None if there is none.

        Raises VersionConflict if the record has none of the versions, DuplicateValue or
        Unavailable.
        """
        while isinstance(outcome := await self._batcher.load(request), RecordUpdate):
            await outcome.ended()
            # Otherwise another request has updated the record.
            if outcome.is_final and request in outcome.outcomes:
                outcome = outcome.outcomes[request]
                break
        if isinstance(outcome, StorageError):
            raise outcome
        return outcome

    async def close(self) -> None:
        """Wait until the batches under way have ended."""
        await self._batcher.close()

    async def _write_batch(
        self, requests: Sequence[UpdateRequest]
    ) -> Sequence[Outcome | RecordUpdate]:
        """Return the outcomes, or the update of the record that the request has to wait for."""
        write_id = ObjectId()
        updates: dict[int, RecordUpdate] = {}
        assigned: list[RecordUpdate] = []
        for request in requests:
            update = self._in_progress.get(request.id) or updates.get(request.id)
            if update is None:
                update = updates[request.id] = RecordUpdate(write_id, request.began)
            if request.id in updates and self._can_share(update, request):
                update.requests.append(request)
            assigned.append(update)
        self._in_progress |= updates
        locked: RecordUpdates = {}
        try:
            with _failing(updates):
                locked = await self._updates.write(await self._updates.reload(updates))
        finally:
            self._end({id_: update for id_, update in updates.items() if id_ not in locked})
        self._write_separately(locked)
        return [
            update.outcomes[request] if update.is_final and request in update.outcomes else update
            for request, update in zip(requests, assigned, strict=True)
        ]

    def _can_share(self, update: RecordUpdate, request: UpdateRequest) -> bool:
        """Whether a request can be merged with those of an update of the same record."""
        return not update.requests or not any(
            self._resource.has_unique(one.change.attributes)
            for one in (update.requests[0], request)
        )

    def _write_separately(self, updates: RecordUpdates) -> None:
        """Begin to write the records of a batch of which one is locked or rejected, in parts.

        Not one by one: a batch also exceeds its time limit when the database is busy, and single
        updates would take several times as long.
        """
        records, size = iter(updates.items()), isqrt(len(updates))
        while part := dict(islice(records, size)):
            self._writes.begin(self._write_part(part))

    async def _write_part(self, part: RecordUpdates) -> None:
        """Write records in one command; unless it is a single one, divide what is left."""
        left = part
        try:
            with _failing(part):
                while left and (left is part or len(part) == 1):
                    async with self._slots:
                        left = await self._updates.write(left)
                    self._orphans.suspect(min(update.began for update in part.values()))
        except Exception:  # a defect: what was not written must not be acknowledged
            for update in left.values():
                update.fail(Unavailable())
            raise
        finally:
            left = {id_: update for id_, update in part.items() if not update.is_final}
            self._end({id_: update for id_, update in part.items() if id_ not in left})
        self._write_separately(left)

    def _end(self, updates: RecordUpdates) -> None:
        for id_, update in updates.items():
            del self._in_progress[id_]
            update.end()


@contextmanager
def _failing(updates: RecordUpdates) -> Iterator[None]:
    """Fail the updates that are not final when the database does not respond."""
    try:
        with translated_errors():
            yield
    except Unavailable as error:
        for update in updates.values():
            if not update.is_final:
                update.fail(error)
