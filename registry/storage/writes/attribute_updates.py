"""Updates of attributes alone: concurrent requests share one read and one write."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from math import isqrt
from typing import Any, TypeAlias

from bson.objectid import ObjectId
from pymongo.errors import (
    ConnectionFailure,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from registry.model.authorship import current_time
from registry.model.record import WRITE_ID, Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher, BatchLimits
from registry.storage.errors import DuplicateValue, StorageError, Unavailable, translated_errors
from registry.storage.orphaned_transactions import OrphanedTransactions
from registry.storage.records import Outcome, update_statement
from registry.storage.unique_indexes import taken_attribute
from registry.storage.visible_fields import visible
from registry.storage.writes.commands import MILLISECONDS, Reply, WriteCommands
from registry.storage.writes.record_updates import RecordUpdate, UpdateRequest
from registry.storage.writes_in_progress import WritesInProgress

_log = logging.getLogger("registry")

_Updates: TypeAlias = Mapping[int, RecordUpdate]
"""By the id of the record."""

_MAX_BATCH_SIZE = 256
"""Requests per batch. In batches of one, an update takes 3.3 times the CPU time."""

_MAX_IN_FLIGHT = 2
"""While the service builds the records of one batch, the database writes the other: 1.06 to 1.21
times the writes per second."""

_LOCK_MILLISECONDS = 250
"""The time limit of a batch update on the server, where it waits for records that transactions have
locked: the longest delay of the others in the batch. A typical update takes 25 ms."""

_LOCKED = {24, 50, 112}
"""Error codes: lock timeout, time limit exceeded, write conflict."""

_RETRY_SECONDS = 10.0
"""How long a request retries a record that other processes lock or change."""

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
        self._commands = commands
        self._orphans = orphans
        self._visible = visible(resource)
        self._batcher = Batcher[UpdateRequest, Outcome | RecordUpdate](
            self._write_batch,
            name="attribute_updates",
            limits=BatchLimits(_MAX_BATCH_SIZE, _MAX_IN_FLIGHT),
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
        locked: _Updates = {}
        try:
            with _failing(updates):
                locked = await self._write(await self._pending(updates))
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

    def _write_separately(self, updates: _Updates) -> None:
        """Begin to write the records of a batch of which one is locked or rejected, in parts.

        Not one by one: a batch also exceeds its time limit when the database is busy, and single
        updates would take several times as long.
        """
        records, size = iter(updates.items()), isqrt(len(updates))
        while part := dict(islice(records, size)):
            self._writes.begin(self._write_part(part))

    async def _write_part(self, part: _Updates) -> None:
        """Write records in one command; unless it is a single one, divide what is left."""
        left = part
        try:
            with _failing(part):
                while left and (left is part or len(part) == 1):
                    async with self._slots:
                        left = await self._write(left)
                    self._orphans.suspect(min(update.began for update in part.values()))
        except Exception:  # a defect: what was not written must not be acknowledged
            for update in left.values():
                update.fail(Unavailable())
            raise
        finally:
            left = {id_: update for id_, update in part.items() if not update.is_final}
            self._end({id_: update for id_, update in part.items() if id_ not in left})
        self._write_separately(left)

    def _end(self, updates: _Updates) -> None:
        for id_, update in updates.items():
            del self._in_progress[id_]
            update.end()

    async def _write(self, pending: _Updates) -> _Updates:
        """Write records; return those left as soon as one is locked or rejected.

        Raises PyMongoError.
        """
        milliseconds = _LOCK_MILLISECONDS
        while pending:
            modified, parts = None, self._parts(pending)
            try:
                reply = await self._commands.update(list(map(_statement, parts)), milliseconds)
                pending = self._without_rejected(pending, reply, parts)
            except (NetworkTimeout, ServerSelectionTimeoutError):
                raise  # Already timed out: do not retry.
            except ConnectionFailure as error:
                _log.info("Repeating an update after a lost connection: %s", error)
                _expect_late(pending)
            except OperationFailure as error:
                if len(pending) == 1 and error.code not in _LOCKED:
                    raise
                return await self._pending(pending)
            else:
                if reply.is_acknowledged and reply.count == len(pending):
                    for update in pending.values():
                        update.is_final = True
                    return {}
                if reply.is_acknowledged:
                    modified = reply.count
                else:  # Replication is slow, not a lock: the next command waits for it.
                    milliseconds = MILLISECONDS
            pending = await self._pending(pending, modified)
        return {}

    def _parts(self, updates: _Updates) -> list[_Updates]:
        """Return the updates of each statement: one that sets a unique attribute has its own."""
        if not self._resource.unique_attributes:
            return [updates]
        is_alone = {id_: self._resource.has_unique(one.fields) for id_, one in updates.items()}
        shared = {id_: one for id_, one in updates.items() if not is_alone[id_]}
        alone: list[_Updates] = [{id_: one} for id_, one in updates.items() if is_alone[id_]]
        return [shared, *alone] if shared else alone

    def _without_rejected(
        self, pending: _Updates, reply: Reply, parts: Sequence[_Updates]
    ) -> _Updates:
        """Fail the updates whose values other records have; return the others.

        Raises OperationFailure if a statement was rejected for another reason, or it is not known
        which of its requests is the reason.
        """
        if not reply.errors:
            return pending
        taken = {}
        for index, error in reply.errors.items():
            name = taken_attribute(error, self._resource)
            requests = [one for update in parts[index].values() for one in update.requests]
            if name is None or len(requests) > 1:
                raise OperationFailure("the update of a record was rejected", error["code"])
            (request,) = requests
            value = request.change.attributes[name]
            taken[request.id] = DuplicateValue(self._resource, name, value)
        if not reply.is_acknowledged:  # the other record may yet be rolled back
            return pending
        for id_, rejection in taken.items():
            pending[id_].reject(rejection)
        return {id_: update for id_, update in pending.items() if id_ not in taken}

    async def _pending(self, updates: _Updates, modified: int | None = None) -> _Updates:
        """Read the records, and compute the updates that have not been applied; return those.

        modified: how many records the last command has updated; None if unknown. Raises
        PyMongoError.
        """
        is_first = not any(update.fields for update in updates.values())
        projection = self._visible if is_first else {**self._visible, WRITE_ID: True}
        found = await self._commands.find(list(updates), projection)
        records = {record["_id"]: record for record in found}
        applied = {id_: one.was_applied(records.get(id_)) for id_, one in updates.items()}
        unknown = [id_ for id_, was_applied in applied.items() if was_applied is None]
        if unknown and modified is not None:
            others = modified - list(applied.values()).count(True)
            if others in {0, len(unknown)}:
                applied |= dict.fromkeys(unknown, others > 0)
        now, written_at = time.monotonic(), current_time()
        for id_, update in updates.items():
            if applied[id_]:
                update.is_final = True
            elif applied[id_] is None or (update.fields and now - update.began > _RETRY_SECONDS):
                update.fail(Unavailable())
            else:
                update.apply(self._resource, records.get(id_), written_at)
        return {id_: update for id_, update in updates.items() if not update.is_final}


def _statement(updates: _Updates) -> dict[str, Any]:
    return update_statement(
        [(id_, update.version, update.fields) for id_, update in updates.items()]
    )


def _expect_late(updates: _Updates) -> None:
    """Note that the connection of a command was lost, so that it may yet be executed."""
    for update in updates.values():
        update.may_be_late = True


@contextmanager
def _failing(updates: _Updates) -> Iterator[None]:
    """Fail the updates that are not final when the database does not respond."""
    try:
        with translated_errors():
            yield
    except Unavailable as error:
        for update in updates.values():
            if not update.is_final:
                update.fail(error)
