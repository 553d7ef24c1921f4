"""The unit of work: loads records, applies changes in memory, and writes the result at once."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeAlias

from pymongo.errors import BulkWriteError

from registry.jsonapi.changes import Change, Linkage, Mode
from registry.jsonapi.pointers import DATA, DocumentPosition
from registry.model.authorship import current_time, updated
from registry.model.record import Record
from registry.model.resource import Resource
from registry.offloading import in_chunks, offload
from registry.storage.errors import (
    DuplicateValue,
    FingerprintMismatch,
    IdTaken,
    RecordNotFound,
    StorageError,
    VersionConflict,
)
from registry.storage.idempotency import IdempotencyKey, StoredResults
from registry.storage.records import (
    ONE_BATCH,
    Outcome,
    Versions,
    Written,
    changed_fields,
    foreign_keys,
    key_of,
    new_record,
    version_of,
)
from registry.storage.transactions import Transaction
from registry.storage.unique_indexes import taken_attribute
from registry.storage.visible_fields import visible
from registry.storage.writes.commands import WriteError
from registry.storage.writes.identity_map import IdentityMap

_MAX_OPERATIONS = 1_000
"""Operations per command: while the driver encodes them, no other thread runs."""

WriteOutcome: TypeAlias = Written | StorageError | None
"""What was written, the error of a rejected request, or None if there is no record to update."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A request to create or update a resource and its links.

    id: None if no record can have the id that was sent. versions: those the record may have.
    is_new: whether to create it, under this id. is_read_back: whether the response shows related
    resources as of the commit; the request is then the last one of its transaction. key: that under
    which the result is stored. position: of the resource object in the request document.
    """

    resource: Resource
    id: int | None
    change: Change
    versions: Versions = None
    is_new: bool = False
    is_read_back: bool = False
    key: IdempotencyKey | None = None
    position: DocumentPosition = DATA

    @property
    def sets_unique(self) -> bool:
        """Whether it sets an attribute that is unique."""
        return self.resource.has_unique(self.change.attributes)


class RequestRejected(Exception):
    """MongoDB has rejected what one request writes, so nothing of the transaction is written.

    index: of the request. error: its outcome.
    """

    def __init__(self, index: int, error: StorageError) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class UnitOfWork:
    """Loads the records, applies the changes in order, and writes the result.

    It needs a transaction, so that what it has loaded is still current when it writes. A resource
    gets its next version when its attributes or relationships change, on whichever side those are
    stored, so that concurrent requests to link to it and to delete it conflict; a request that
    changes nothing writes nothing. Instead of a request whose idempotency key has a result, it
    returns that result.
    """

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._graph = transaction.graph
        self._identity_maps = {one.type: IdentityMap(one) for one in self._graph.values()}
        self._time = current_time()
        self._results = StoredResults(transaction)

    async def apply(self, requests: Sequence[WriteRequest]) -> list[WriteOutcome]:
        """Apply the requests in order; return the outcome of each, without a time.

        A rejected request changes nothing, and does not affect the others: its outcome is
        VersionConflict, IdTaken, FingerprintMismatch, or RecordNotFound with the missing targets
        of a linkage. At most one request may set the unique attributes of a resource, as only the
        values that are written in the end are compared. Raises RequestRejected with DuplicateValue
        for a value that another resource has; also PyMongoError, StoredResultTooLarge or
        TransactionConflict.
        """
        await self._load(requests)
        await self._results.load(request.key for request in requests if request.key)
        size = len(requests) + sum(request.change.size for request in requests)
        outcomes = await offload(lambda: list(map(self._apply_once, requests)), size=size)
        await self._flush(requests)
        return outcomes

    async def _load(self, requests: Sequence[WriteRequest]) -> None:
        """Load the resources, the targets of their linkages, and members that may be removed."""
        values: dict[str, dict[str, set[int]]] = defaultdict(partial(defaultdict, set))
        for request in requests:
            if request.id is None:
                continue
            values[request.resource.type]["_id"].add(request.id)
            for linkage in request.change.linkages:
                relationship = linkage.relationship
                values[relationship.target]["_id"].update(linkage.ids)
                if relationship.to_many and linkage.mode is Mode.REPLACE:
                    values[relationship.target][relationship.foreign_key].add(request.id)
        for type_name, by_field in values.items():
            resource = self._graph[type_name]
            conditions = [{field: {"$in": list(ids)}} for field, ids in by_field.items() if ids]
            if not conditions:
                continue
            collection, session = self._transaction.collection(resource), self._transaction.session
            cursor = collection.find(
                {"$or": conditions}, visible(resource), batch_size=ONE_BATCH, session=session
            )
            async for records in in_chunks(await cursor.to_list(None)):
                self._identity_maps[type_name].load(records)

    def _apply_once(self, request: WriteRequest) -> WriteOutcome:
        try:
            result = self._results.get(request.key) if request.key else None
        except FingerprintMismatch as error:
            return error
        if result:
            return Written(result[0], is_replayed=True)
        outcome = self._apply(request)
        if not isinstance(outcome, dict):
            return outcome
        if request.key:
            self._results.add(request.key, [(request.resource, outcome)])
        return Written(outcome)

    def _apply(self, request: WriteRequest) -> Outcome:
        if request.id is None:
            return None
        identity_map, change = self._identity_maps[request.resource.type], request.change
        before = identity_map.get(request.id)
        if not request.is_new and before is None:
            return None
        if (rejection := self._rejection(request, before)) is not None:
            return rejection
        if before is None:
            identity_map.add(new_record(request.resource, request.id, change, self._time))
        else:
            fields = changed_fields(request.resource, before, change.attributes)
            if fields:
                fields |= updated(change.author, self._time)
            fields |= changed_fields(request.resource, before, foreign_keys(change))
            if fields or any(map(partial(self._changes_members, request.id), change.linkages)):
                identity_map.update(request.id, fields)
        for linkage in change.linkages:
            if linkage.relationship.to_many:
                self._link_members(request.resource, request.id, linkage)
            else:
                self._link_target(linkage, before or {})
        return identity_map.get(request.id)

    def _rejection(self, request: WriteRequest, before: Record | None) -> StorageError | None:
        """Return why a request cannot be applied to its record, None if it can."""
        if request.is_new and before is not None:
            return IdTaken()
        if request.versions is not None and version_of(before or {}) not in request.versions:
            return VersionConflict()
        return self._missing_targets(request.change)

    def _changes_members(self, id_: int, linkage: Linkage) -> bool:
        targets = self._identity_maps[linkage.relationship.target]
        return linkage.relationship.to_many and bool(
            targets.removed_members(id_, linkage) or targets.added_members(id_, linkage)
        )

    def _missing_targets(self, change: Change) -> RecordNotFound | None:
        for linkage in change.linkages:
            if linkage.mode is Mode.REMOVE:
                continue  # a record that does not exist is not a member either
            target = linkage.relationship.target
            records = self._identity_maps[target]
            sent = linkage.identifiers
            if missing := [id_ for id_ in sent if id_.id is None or not records.get(id_.id)]:
                return RecordNotFound.by_identifiers(target, missing)
        return None

    def _link_members(self, resource: Resource, id_: int, linkage: Linkage) -> None:
        foreign_key = linkage.relationship.foreign_key
        targets = self._identity_maps[linkage.relationship.target]
        for member in targets.removed_members(id_, linkage):
            targets.update(member, {foreign_key: None})
        for member, owner in targets.added_members(id_, linkage):
            targets.update(member, {foreign_key: id_})
            self._identity_maps[resource.type].increment_version(owner)

    def _link_target(self, linkage: Linkage, before: Record) -> None:
        targets = self._identity_maps[linkage.relationship.target]
        previous = key_of(before, linkage.relationship.foreign_key)
        new = next(iter(linkage.ids), None)
        if previous != new:
            targets.increment_version(previous)
            targets.increment_version(new)

    async def _flush(self, requests: Sequence[WriteRequest]) -> None:
        for type_name, identity_map in self._identity_maps.items():
            resource, operations = self._graph[type_name], identity_map.take_operations()
            collection = self._transaction.collection(resource)
            while chunk := list(islice(operations, _MAX_OPERATIONS)):
                try:
                    writes = [write for _, write in chunk]
                    await collection.bulk_write(writes, session=self._transaction.session)
                except BulkWriteError as error:
                    for failure in error.details["writeErrors"]:
                        id_, _ = chunk[failure["index"]]
                        _raise_rejected(requests, resource, id_, failure)
                    raise
        await self._results.flush()


def _raise_rejected(
    requests: Sequence[WriteRequest], resource: Resource, id_: Hashable, failure: WriteError
) -> None:
    """Raise RequestRejected if a record was rejected because a request has set a taken value."""
    name = taken_attribute(failure, resource)
    for index, request in enumerate(requests):
        is_written = request.resource.type == resource.type and request.id == id_
        if is_written and name in request.change.attributes:
            value = request.change.attributes[name]
            raise RequestRejected(index, DuplicateValue(resource, name, value, request.position))
