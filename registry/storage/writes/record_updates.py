"""Record updates: the requests of a batch that change the attributes of one record."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from bson.objectid import ObjectId

from registry.jsonapi.changes import Change
from registry.model.authorship import updated
from registry.model.record import VERSION, WRITE_ID, Record
from registry.model.resource import Resource
from registry.storage.errors import StorageError, Unavailable, VersionConflict
from registry.storage.records import Outcome, Versions, changed_fields, version_of


@dataclass(frozen=True, slots=True, eq=False)
class UpdateRequest:
    """A request to change the attributes of the record with this id.

    versions: those the record may have. began: when, in seconds of `time.monotonic`.
    """

    id: int
    change: Change
    versions: Versions
    began: float = field(default_factory=time.monotonic)


class RecordUpdate:
    """The changes that a batch makes to one record, merged in memory and written by one command.

    write_id: identifies the batch. began: when its first request did. fields: what to write if the
    record still has this version; empty if nothing changes. may_be_late: whether the connection of
    a command was lost, so that it may yet be executed. outcomes: of each request, once `is_final`.
    """

    def __init__(self, write_id: ObjectId, began: float) -> None:
        self.requests: list[UpdateRequest] = []
        self.write_id = write_id
        self.began = began
        self.version = 0
        self.fields: Record = {}
        self.may_be_late = False
        self.outcomes: Mapping[UpdateRequest, Outcome] = {}
        self.is_final = False
        self._has_ended = False
        self._waiting: list[asyncio.Future[None]] = []  # an Event takes longer to create

    async def ended(self) -> None:
        """Wait until another batch may write the record."""
        if not self._has_ended:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    def end(self) -> None:
        """Let another batch write the record."""
        self._has_ended = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def apply(self, resource: Resource, record: Record | None, time: str) -> None:
        """Apply the requests in order to the record as it is stored, None if there is none.

        time: of the write, as stored.
        """
        outcomes: dict[UpdateRequest, Outcome] = {}
        version = self.version = version_of(record or {})
        self.fields = {}
        for request in self.requests:
            if record is None:
                outcomes[request] = None
            elif request.versions is not None and version not in request.versions:
                outcomes[request] = VersionConflict()
            else:
                if fields := changed_fields(resource, record, request.change.attributes):
                    version += 1
                    fields |= updated(request.change.author, time)
                    self.fields |= {**fields, VERSION: version, WRITE_ID: self.write_id}
                    record = record | self.fields
                outcomes[request] = record
        self.outcomes, self.is_final = outcomes, not self.fields

    def was_applied(self, record: Record | None) -> bool | None:
        """Return whether the fields have been written, None if the record does not show it."""
        if not self.fields:
            return False
        if record is None:
            return None
        if record.get(WRITE_ID) == self.write_id:
            return True
        # Every write increments the version, so only a later one can have replaced this `write_id`.
        return None if version_of(record) > self.fields[VERSION] else False

    def fail(self, error: StorageError) -> None:
        """Give all requests this outcome."""
        self.outcomes, self.is_final = dict.fromkeys(self.requests, error), True

    def reject(self, error: StorageError) -> None:
        """Give all requests this outcome, unless a lost command may yet be executed."""
        self.fail(Unavailable() if self.may_be_late else error)
