"""Updates of records under optimistic concurrency control: read, compute, write, compare."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pymongo.errors import (
    ConnectionFailure,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from registry.model.authorship import current_time
from registry.model.record import WRITE_ID, Record
from registry.model.resource import Resource
from registry.storage.errors import DuplicateValue, Unavailable
from registry.storage.records import update_statement
from registry.storage.unique_indexes import taken_attribute
from registry.storage.visible_fields import visible
from registry.storage.writes.commands import MILLISECONDS, Reply, WriteCommands
from registry.storage.writes.record_updates import RecordUpdate

_log = logging.getLogger("registry")

RecordUpdates: TypeAlias = Mapping[int, RecordUpdate]
"""By the id of the record."""

_LOCK_MILLISECONDS = 250
"""The time limit of a batch update on the server, where it waits for records that transactions have
locked: the longest delay of the others in the batch. A typical update takes 25 ms."""

_LOCKED = {24, 50, 112}
"""Error codes: lock timeout, time limit exceeded, write conflict."""

_RETRY_SECONDS = 10.0
"""How long a request retries a record that other processes lock or change."""


class OptimisticUpdates:
    """Writes the updates of records of one type, each on condition of the version that was read.

    Two commands suffice unless other processes lock or change the records in between.
    """

    def __init__(self, resource: Resource, commands: WriteCommands) -> None:
        self._resource = resource
        self._commands = commands
        self._visible = visible(resource)

    async def reload(self, updates: RecordUpdates, modified: int | None = None) -> RecordUpdates:
        """Read the records, apply the requests to those not yet written; return their updates.

        modified: how many records the last command has updated; None if unknown. Raises
        PyMongoError.
        """
        is_first = not any(update.fields for update in updates.values())
        projection = self._visible if is_first else {**self._visible, WRITE_ID: True}
        found = await self._commands.find(list(updates), projection)
        records = {record["_id"]: record for record in found}
        applied = _applied(updates, records, modified)
        now, written_at = time.monotonic(), current_time()
        for id_, update in updates.items():
            if applied[id_]:
                update.is_final = True
            elif applied[id_] is None or (update.fields and now - update.began > _RETRY_SECONDS):
                update.fail(Unavailable())
            else:
                update.apply(self._resource, records.get(id_), written_at)
        return {id_: update for id_, update in updates.items() if not update.is_final}

    async def write(self, pending: RecordUpdates) -> RecordUpdates:
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
                return await self.reload(pending)
            else:
                if reply.is_acknowledged and reply.count == len(pending):
                    for update in pending.values():
                        update.is_final = True
                    return {}
                if reply.is_acknowledged:
                    modified = reply.count
                else:  # Replication is slow, not a lock: the next command waits for it.
                    milliseconds = MILLISECONDS
            pending = await self.reload(pending, modified)
        return {}

    def _parts(self, updates: RecordUpdates) -> list[RecordUpdates]:
        """Return the updates of each statement: one that sets a unique attribute has its own."""
        if not self._resource.unique_attributes:
            return [updates]
        is_alone = {id_: self._resource.has_unique(one.fields) for id_, one in updates.items()}
        shared = {id_: one for id_, one in updates.items() if not is_alone[id_]}
        alone: list[RecordUpdates] = [{id_: one} for id_, one in updates.items() if is_alone[id_]]
        return [shared, *alone] if shared else alone

    def _without_rejected(
        self, pending: RecordUpdates, reply: Reply, parts: Sequence[RecordUpdates]
    ) -> RecordUpdates:
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


def _applied(
    updates: RecordUpdates, records: Mapping[int, Record], modified: int | None
) -> dict[int, bool | None]:
    """Return whether each update has been applied, None if neither record nor count show it."""
    applied = {id_: one.was_applied(records.get(id_)) for id_, one in updates.items()}
    unknown = [id_ for id_, was_applied in applied.items() if was_applied is None]
    if unknown and modified is not None:
        others = modified - list(applied.values()).count(True)
        if others in {0, len(unknown)}:
            applied |= dict.fromkeys(unknown, others > 0)
    return applied


def _statement(updates: RecordUpdates) -> dict[str, Any]:
    return update_statement(
        [(id_, update.version, update.fields) for id_, update in updates.items()]
    )


def _expect_late(updates: RecordUpdates) -> None:
    """Note that the connection of a command was lost, so that it may yet be executed."""
    for update in updates.values():
        update.may_be_late = True
