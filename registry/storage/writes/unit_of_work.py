"""The unit of work: loads records, applies writes to them in memory, and stores the result."""

import logging
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from registry.jsonapi.changes import Change, Linkage, Verb, Write
from registry.jsonapi.error_objects import READ_ONLY
from registry.model.authorship import current_time, updated
from registry.model.graph import Graph
from registry.model.record import LAST_WRITE, VERSION, Record, version_of
from registry.model.resource_type import ResourceType
from registry.offloading import in_chunks, offload
from registry.storage.errors import (
    DUPLICATE_KEY,
    DuplicateValue,
    IdTaken,
    InvalidAttributes,
    InvalidRecord,
    RecordNotFound,
    RefusedWrites,
    StorageError,
    StoredResultTooLarge,
    Unavailable,
    VersionConflict,
)
from registry.storage.mongo.transactions import Transaction, TransactionConflict, WriteRejected
from registry.storage.records import (
    NEXT_VERSION,
    VALIDATION_FAILURE,
    changed_fields,
    foreign_keys,
    id_condition,
    is_same,
    is_valid,
    new_record,
    projection,
    refused_record,
    require_valid,
    tracked_fields,
    visible_fields,
)
from registry.storage.schema.unique_indexes import taken_attribute
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.idempotency import StoredResults
from registry.storage.writes.identity_map import IdentityMap, RecordChange, RecordKey
from registry.storage.writes.link_histories import LinkHistories
from registry.storage.writes.unique_values import NoId, UniqueValues
from registry.storage.writes.write_requests import (
    WriteRequest,
    WriteResult,
    replayed,
    stored_part,
)

_log = logging.getLogger("registry")

_Item = TypeVar("_Item")

_MAX_STATEMENTS = 1_000
"""Records per command: while the driver encodes them, no other thread runs."""

_MAX_MEMBERS = 5_000
"""Members of relationships that a group loads. A request that unlinks more runs alone, as it would
delay the others."""

_MAX_REJECTIONS = 3
"""How often a request may fail because a value is taken that seemed to be free."""


class UnitOfWork:
    """Applies requests in order to records in memory, and stores the result.

    It needs a transaction, so that what it has loaded is still current when it is stored. A
    resource gets its next version when its attributes or relationships change, on whichever side
    those are stored, so that concurrent requests to link to it and to delete it conflict; a request
    that changes nothing stores nothing. Instead of a request whose idempotency key has a result, it
    returns that result. The methods raise PyMongoError or TransactionConflict.
    """

    def __init__(self, transaction: Transaction, graph: Graph, counters: Counters) -> None:
        self._transaction = transaction
        self._graph = graph
        self._records = IdentityMap(graph)
        self._results = StoredResults(transaction)
        self._counters = counters
        self._values: UniqueValues | None = None  # if they are to be compared
        self._refusals: list[StorageError] = []
        self._set_unique = set[RecordKey]()  # whose unique attributes are changed, but not stored
        self._time = current_time()
        self._histories = LinkHistories(transaction, graph, counters, self._records, self._time)

    async def load(self, requests: Sequence[WriteRequest]) -> None:
        """Load the resources, the targets of their linkages, and members that may be removed.

        With them come the former targets of links with a history, which copies their attributes.
        Raises InvalidRecord; of several requests, TransactionConflict instead, also if one of them
        may remove too many.
        """
        keys = [request.key for request in requests if request.key is not None]
        await self._results.load(keys)
        values: dict[str, dict[str, set[int]]] = defaultdict(partial(defaultdict, set))
        for write in (write for request in requests for write in request.planned):
            for type_name, field_name, ids in _values_to_load(write):
                values[type_name][field_name].update(ids)
        if any(map(attrgetter("compares_values"), requests)):
            await self._load_unique(requests, values)
        former_target_ids: dict[str, set[int]] = defaultdict(set)
        changes_links = any(request.changes_links for request in requests)
        for resource in self._histories.load_order:
            optional_ids = former_target_ids[resource.type]
            records = await self._load_type(
                resource, values[resource.type], optional_ids, requests, changes_links=changes_links
            )
            if changes_links:
                for target, ids in self._histories.targets(resource, records):
                    former_target_ids[target].update(ids)

    async def _load_unique(
        self, requests: Sequence[WriteRequest], values: dict[str, dict[str, set[int]]]
    ) -> None:
        """Add the resources that have values of unique attributes, which writes may then update.

        values: of the records to load, by type and field.
        """
        self._values = UniqueValues(self._transaction, self._records)
        writes = [write for request in requests for write in request.sent]
        for type_name, ids in (await self._values.load(writes)).items():
            values[type_name]["_id"].update(ids)
        for write in writes:
            for linkage in write.change.linkages if write.merges else ():
                relationship = linkage.relationship
                if relationship.to_many:
                    members = values[relationship.target][relationship.foreign_key]
                    members.update(values[write.resource.type]["_id"])

    async def _load_type(
        self,
        resource: ResourceType,
        values: dict[str, set[int]],
        optional_ids: Set[int],
        requests: Sequence[WriteRequest],
        *,
        changes_links: bool,
    ) -> list[Record]:
        """Load and return the records of a type that the requests need.

        values: those of the fields of the records. optional_ids: of further records, which are
        loaded only if they are valid. Raises as `load` does.
        """
        fields = tracked_fields(resource) if changes_links else visible_fields(resource)
        optional_ids = optional_ids - values["_id"]
        values["_id"] |= optional_ids
        is_alone = all(request.is_alone for request in requests)
        limit = 0 if is_alone else len(values["_id"]) + _MAX_MEMBERS
        records = await self._find(resource, values, fields, limit)
        if optional_ids:
            records = [
                one
                for one in records
                if one["_id"] not in optional_ids or is_valid(resource, one, fields)
            ]
        async for some in in_chunks(records):
            try:
                require_valid(resource, some, fields)
            except InvalidRecord as error:
                if len(requests) > 1:  # which do not all need it
                    raise TransactionConflict from error
                raise
            self._records.load(resource.type, some)
        return records

    async def _find(
        self,
        resource: ResourceType,
        values: Mapping[str, set[int]],
        fields: tuple[str, ...],
        limit: int,
    ) -> list[Record]:
        """Return the records in which a field has one of its values.

        Raises TransactionConflict if they are as many as the limit, unless it is 0.
        """
        conditions = [{name: id_condition(list(ids))} for name, ids in values.items() if ids]
        if not conditions:
            return []
        query = {"$or": conditions} if len(conditions) > 1 else conditions[0]
        records = await self._transaction.find(
            resource.collection, query, projection(fields), limit=limit
        )
        if limit and len(records) == limit:
            raise TransactionConflict
        return records

    async def apply(self, request: WriteRequest) -> list[WriteResult]:
        """Apply the writes of a request in order; return the result of each, without a time.

        Raises VersionConflict, FingerprintMismatch, InvalidAttributes, RecordNotFound with the
        resource or the targets of a linkage that do not exist, DuplicateValue of those that it
        compares, or RefusedWrites with several of these; then nothing is applied.
        """
        self._records.savepoint()
        self._records.author = request.author
        self._histories.savepoint()
        if request.key and (stored := self._results.get(request.key)) is not None:
            return replayed(request.sent, stored)
        try:
            results = await self._apply_all(request)
            if request.changes_links:
                await self._histories.add_request(request.author)
        except StorageError:
            self._records.undo()
            self._histories.undo()
            raise
        if request.key:
            self._results.add(request.key, [stored_part(one) for one in results])
        return results

    @property
    def touched(self) -> set[RecordKey]:
        """The records that the last request has changed."""
        return self._records.touched

    def undo(self, request: WriteRequest) -> None:
        """Undo the request that was applied last."""
        self._records.undo()
        self._histories.undo()
        if request.key:
            self._results.discard(request.key)

    async def flush(self, requests: Sequence[WriteRequest]) -> None:
        """Store what the requests have changed.

        Raises StoredResultTooLarge; of a single request also IdTaken, or DuplicateValue for a value
        that another resource has.
        """
        changes, incremented = self._records.take_changes()
        changes += await self._histories.take_changes()
        for resource in self._graph.values():
            own = [one for one in changes if one.key[0] == resource.type]
            # In order, as a resource may get the unique value that another one had before.
            ordered = own if resource.unique_attributes else sorted(own, key=_command)
            for command, some in groupby(ordered, _command):
                for chunk in _chunks(list(some)):
                    try:
                        await self._store(command, resource, chunk)
                    except WriteRejected as rejected:
                        if len(requests) > 1 or _compares_again(requests[0], resource, rejected):
                            raise
                        raise _rejection(requests[0], resource, rejected) from None
            ids = [id_ for type_name, id_ in incremented if type_name == resource.type]
            for chunk_of_ids in _chunks(ids):
                statement = _statement(chunk_of_ids, [{"$set": {VERSION: NEXT_VERSION}}])
                await self._transaction.update(resource.collection, [statement])
        try:
            await self._results.flush()
        except StoredResultTooLarge as error:
            if len(requests) > 1:
                raise TransactionConflict from error
            raise

    async def _store(
        self, command: str, resource: ResourceType, changes: Sequence[RecordChange]
    ) -> None:
        """Store changes by one command: "delete", "insert" or "update"."""
        name = resource.collection
        if command == "insert":
            await self._transaction.insert(name, [one.after for one in changes if one.after])
        elif command == "delete":
            ids = [one.before["_id"] for one in changes if one.before]
            await self._transaction.delete(name, [{"q": {"_id": id_condition(ids)}, "limit": 0}])
        else:
            await self._transaction.update(name, _statements(changes, resource))

    async def _apply_all(self, request: WriteRequest) -> list[WriteResult]:
        writes, results, ids = request.planned, list[WriteResult](), dict[int, int]()
        if request.merges and self._values is not None:
            new = writes if request.needs_ids else self._values.unmatched(writes)
            ids = await self._counters.assign(new, merging=True)
        while rest := writes[len(results) :]:
            if results and not request.is_alone:
                raise TransactionConflict
            if results:
                await self.flush([request])
            size = max(sum(write.size for write in rest), self._records.size)
            try:
                results += await offload(partial(self._apply_part, rest, ids), size=size)
            except NoId as error:
                request.needs_ids = True
                raise TransactionConflict from error
            if request.merges:
                request.writes = [result.write for result in results]
        return results

    def _apply_part(self, writes: Sequence[Write], ids: dict[int, int]) -> list[WriteResult]:
        """Apply writes, and go on after one that is refused, so that all errors are reported.

        It ends before one that sets unique attributes of a resource once more, as the database only
        compares the values that are stored. ids: by placeholder, those of resources that merging
        creates; gets those that it updates.
        """
        self._set_unique.clear()
        results: list[WriteResult] = []
        refusals = self._refusals = []
        for sent in writes:
            write = sent
            if self._values is not None:
                write, errors = self._values.resolve(sent, ids)
                refusals += errors
            key = write.resource.type, write.target.id
            if key in self._set_unique and self._changes_unique(key, write):
                break
            try:
                results.append(self._apply(write))
            except RecordNotFound as error:
                refusals.append(error)
        if refusals:
            raise RefusedWrites(refusals) if len(refusals) > 1 else refusals[0]
        return results

    def _changes_unique(self, key: RecordKey, write: Write) -> bool:
        attributes, record = write.change.attributes, self._records.get(key) or {}
        return write.verb is Verb.REMOVE or any(
            name in attributes and not is_same(attributes[name], record.get(name))
            for name in write.resource.unique_attributes
        )

    def _apply(self, write: Write) -> WriteResult:
        resource, id_, change = write.resource, write.target.id, write.change
        key = (resource.type, id_)
        before = self._records.get(key)
        if write.verb is not Verb.ADD and before is None:
            raise RecordNotFound.by_identifiers(resource.type, [write.target])
        if write.versions is not None and version_of(before or {}) not in write.versions:
            raise VersionConflict
        if write.verb is Verb.ADD and before is not None:
            raise IdTaken
        if self._values is not None:
            self._refusals += self._values.taken(write)
        if missing := self._missing_targets(change):
            self._refusals += missing
            change = replace(change, linkages=())
            write = replace(write, change=change)
        assert id_ is not None  # noqa: S101 - for mypy: otherwise there is no record
        if write.verb is Verb.REMOVE:
            self._delete(resource, id_, before or {})
        elif write.verb is Verb.ADD:
            self._records.replace(key, new_record(resource, id_, change, self._time))
            self._link(resource, id_, change, {})
        else:
            self._update(write, id_, before or {})
        after = self._records.get(key)
        if after is not before and write.sets_unique:
            self._records.write_last(key)
            self._set_unique.add(key)
        if self._values is not None and after is not None:
            self._values.update(resource, after)
        return WriteResult(write, after or before or {}, is_changed=after is not before)

    def _missing_targets(self, change: Change) -> list[RecordNotFound]:
        errors: list[RecordNotFound] = []
        for linkage in change.linkages:
            if linkage.verb is Verb.REMOVE:
                continue  # a record that does not exist is not a member either
            target = linkage.relationship.target
            sent = linkage.identifiers
            if missing := [one for one in sent if not self._records.get((target, one.id))]:
                errors.append(RecordNotFound.by_identifiers(target, missing))
        return errors

    def _update(self, write: Write, id_: int, before: Record) -> None:
        resource, change = write.resource, write.change
        sent = change.read_only.items()
        if other := [
            name for name, one in sent if not is_same(one, resource.json_value(name, before))
        ]:
            details = dict.fromkeys(other, READ_ONLY)
            self._refusals.append(InvalidAttributes(details, write.position))
        fields = changed_fields(resource, before, change.attributes)
        if fields:
            fields |= updated(change.author, self._time)
        fields |= changed_fields(resource, before, foreign_keys(change))
        to_many = [one for one in change.linkages if one.relationship.to_many]
        if fields or any(
            self._records.removed_members(id_, one) or self._records.added_members(id_, one)
            for one in to_many
        ):
            self._records.update((resource.type, id_), fields)
            self._link(resource, id_, change, before)

    def _link(self, resource: ResourceType, id_: int, change: Change, before: Record) -> None:
        """Change the other side of links. before: the record before the change."""
        records = self._records
        for linkage in change.linkages:
            target, foreign_key = linkage.relationship.target, linkage.relationship.foreign_key
            if not linkage.relationship.to_many:
                previous, new = before.get(foreign_key), next(iter(linkage.ids), None)
                for owner in (previous, new) if previous != new else ():
                    records.increment_version(target, owner)
                continue
            for member in records.removed_members(id_, linkage):
                records.update(member, {foreign_key: None})
            for member, owner in records.added_members(id_, linkage):
                records.update(member, {foreign_key: id_})
                records.increment_version(resource.type, owner)

    def _delete(self, resource: ResourceType, id_: int, record: Record) -> None:
        """Delete a record and all links to it."""
        for relationship in resource.relationships.values():
            target, foreign_key = relationship.target, relationship.foreign_key
            if relationship.read_only:
                continue
            if relationship.to_many:
                for member in self._records.removed_members(id_, Linkage(relationship, ())):
                    self._records.update(member, {foreign_key: None})
            else:
                self._records.increment_version(target, record.get(foreign_key))
        self._records.replace((resource.type, id_), None)


def _values_to_load(write: Write) -> Iterator[tuple[str, str, Iterable[int]]]:
    """Yield types, fields and the values of those of the records that a write needs."""
    id_, resource = write.target.id, write.resource
    if id_ is None:
        return
    if write.verb is not Verb.ADD:
        yield resource.type, "_id", (id_,)
    for linkage in write.change.linkages:
        relationship = linkage.relationship
        yield relationship.target, "_id", linkage.ids
        if relationship.to_many and linkage.verb is Verb.UPDATE:
            yield relationship.target, relationship.foreign_key, (id_,)
    if write.verb is Verb.REMOVE:
        for relationship in resource.relationships.values():
            if relationship.to_many and not relationship.read_only:
                yield relationship.target, relationship.foreign_key, (id_,)


def _compares_again(request: WriteRequest, resource: ResourceType, rejected: WriteRejected) -> bool:
    """Whether to repeat a request, and find out first who has a value that is taken.

    A few times, as others may store one meanwhile.
    """
    request.compares_values = True
    request.rejections += 1
    is_known = taken_attribute(rejected.error, resource) in resource.unique_attributes
    return is_known and request.rejections < _MAX_REJECTIONS


def _command(change: RecordChange) -> str:
    if change.after is None:
        return "delete"
    return "insert" if change.before is None else "update"


def _statements(changes: Sequence[RecordChange], resource: ResourceType) -> list[dict[str, Any]]:
    """Return the statements of updates: one for all records in which the same links change."""
    links = {VERSION, LAST_WRITE, *(link.foreign_key for link in resource.links)}
    links |= {*resource.tracking_fields}
    alike: dict[Hashable, list[RecordChange]] = defaultdict(list)
    for one in changes:
        fields = one.fields
        alike[tuple(fields.items()) if fields.keys() <= links else one.key].append(one)
    return [
        _statement([one.after["_id"] for one in some if one.after], {"$set": some[0].fields})
        for some in alike.values()
    ]


def _statement(ids: Sequence[Any], update: Any) -> dict[str, Any]:
    return {"q": {"_id": id_condition(ids)}, "u": update, "multi": len(ids) > 1}


def _rejection(
    request: WriteRequest, resource: ResourceType, rejected: WriteRejected
) -> StorageError:
    """Return why MongoDB has rejected what a request writes to records of a type."""
    name = taken_attribute(rejected.error, resource)
    for write in reversed(request.writes):
        attributes = write.change.attributes
        is_rejected = write.resource is resource and write.target.id == rejected.id
        if is_rejected and name is not None and name in attributes:
            return DuplicateValue(resource, name, write.position)
    error = rejected.error
    if error["code"] == DUPLICATE_KEY and list(error.get("keyPattern", ())) == ["_id"]:
        return IdTaken()
    if error["code"] == VALIDATION_FAILURE:
        return refused_record(resource, rejected.id, error)
    _log.error("MongoDB rejects %s/%s: %s", resource.collection, rejected.id, error.get("errmsg"))
    return Unavailable()


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), _MAX_STATEMENTS):
        yield items[start : start + _MAX_STATEMENTS]
