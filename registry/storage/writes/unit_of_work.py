"""The unit of work: loads records, applies writes to them in memory, and stores the result."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pymongo.errors import DocumentTooLarge

from registry.jsonapi.changes import Change, Linkage, Verb, Write
from registry.jsonapi.error_objects import ErrorCollector, RequestError
from registry.jsonapi.error_types import (
    NotFound,
    PreconditionFailed,
    ResultTooLarge,
    TooManyRelated,
    invalid_attributes,
)
from registry.model.graph import Graph
from registry.model.implicit_attributes import current_time, updated
from registry.model.record import Record, version_of
from registry.model.resource_type import ResourceType
from registry.offloading import in_chunks, offload
from registry.storage.mongo.transactions import Transaction, TransactionConflict, WriteRejected
from registry.storage.records import (
    changed_fields,
    foreign_keys,
    id_condition,
    is_same,
    new_record,
    projection,
    tracked_fields,
)
from registry.storage.writes.identity_map import IdentityMap, RecordKey, rejection, store
from registry.storage.writes.link_periods import LinkHistories
from registry.storage.writes.new_ids import LastIds, NewIds
from registry.storage.writes.unique_values import UniqueValues, completed
from registry.storage.writes.write_requests import (
    RESULTS,
    Outcome,
    WriteRequest,
    WriteResult,
    new_result,
    replayed,
    values_to_load,
)

_MAX_MEMBERS = 5_000
"""Members of relationships that a group loads. A request that unlinks more runs alone, as it would
delay the others."""

_MAX_MEMBERS_ALONE = 20_000
"""Members of relationships that a request alone may unlink, about what it takes some seconds for.
A request document can name 16,000."""


class UnitOfWork:
    """Applies requests in order to records in memory, and stores the result.

    It needs a transaction, so that loaded records are still current when it stores them. A resource
    gets its next version when its attributes or its relationships change, even those stored on the
    other side, so that concurrent requests to link to it and to delete it conflict; a request that
    changes nothing stores nothing. For a request whose idempotency key has a result, it returns
    that result. The methods raise PyMongoError or TransactionConflict.

    records: as the requests so far have left them.
    """

    def __init__(self, transaction: Transaction, graph: Graph, last_ids: LastIds) -> None:
        self._transaction = transaction
        self._graph = graph
        self.records = IdentityMap(graph)
        self.new_ids = NewIds(transaction, last_ids)
        self._values = UniqueValues(transaction, self.records)
        self._refusals = ErrorCollector()
        self._set_unique = set[RecordKey]()  # whose unique attributes are changed, but not stored
        self._sealed = set[RecordKey]()  # those of the requests before
        self._authors: dict[RecordKey, str | None] = {}  # of the changes, by record
        self._time = current_time()
        self._histories = LinkHistories(graph, self.new_ids, self.records, self._time)

    async def load(self, requests: Sequence[WriteRequest]) -> None:
        """Load the resources, the targets of their linkages, and members that may be removed.

        Also load the former targets of links: their versions change, and histories copy their
        attributes. Raises TransactionConflict if one of several requests may remove too many.
        """
        if keys := [request.key.id for request in requests if request.key]:
            found = await self._transaction.find(RESULTS, {"_id": {"$in": keys}})
            self.records.load(RESULTS, found)
        values: dict[str, dict[str, set[int]]] = defaultdict(partial(defaultdict, set))
        writes = [write for request in requests for write in request.writes]
        for write in writes:
            for type_name, field_name, ids in values_to_load(write):
                values[type_name][field_name].update(ids)
        await self._load_unique(writes, values)
        changes_links = any(write.change.linkages or write.verb is Verb.REMOVE for write in writes)
        if changes_links or any(write.verb is Verb.ADD for write in writes):
            await self.new_ids.load(holds=requests[0].is_alone)
        former_target_ids: dict[str, set[int]] = defaultdict(set)
        # Targets come last where possible: the records that lead to them are then known.
        for resource in sorted(self._graph.writable, key=lambda resource: not resource.links):
            values[resource.type]["_id"] |= former_target_ids.pop(resource.type, set())
            records = await self._load_type(resource, values[resource.type], requests)
            for link in resource.links if changes_links else ():
                linked_ids = (record.get(link.foreign_key) for record in records)
                former_target_ids[link.target].update(id_ for id_ in linked_ids if id_ is not None)
        for type_name, ids in former_target_ids.items():
            unknown = {id_ for id_ in ids if not self.records.get((type_name, id_))}
            await self._load_type(self._graph[type_name], {"_id": unknown}, requests)

    async def _load_unique(
        self, writes: Sequence[Write], values: dict[str, dict[str, set[int]]]
    ) -> None:
        """Find the records with the unique values that are set, and add their ids to `values`."""
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
        requests: Sequence[WriteRequest],
    ) -> list[Record]:
        """Load and return the records of a type that the requests need.

        values: those of the fields of the records. Raises as `load` does.
        """
        fields = tracked_fields(resource)
        is_alone = all(request.is_alone for request in requests)
        limit = len(values["_id"]) + (_MAX_MEMBERS_ALONE if is_alone else _MAX_MEMBERS)
        conditions = [{name: id_condition(list(ids))} for name, ids in values.items() if ids]
        if not conditions:
            return []
        query = {"$or": conditions} if len(conditions) > 1 else conditions[0]
        records = await self._transaction.find(
            resource.collection, query, projection(fields), limit=limit
        )
        if len(records) == limit:
            raise (
                TooManyRelated(resource.type, _MAX_MEMBERS_ALONE)
                if is_alone
                else TransactionConflict
            )
        async for some in in_chunks(records):
            self.records.load(resource.type, some)
        return records

    async def apply(self, request: WriteRequest) -> Outcome:
        """Apply the writes of a request in order; return the result of each, without a time.

        Returns an error: IdempotencyKeyReused, PreconditionFailed, or all errors of the request
        among InvalidField, ValueTaken, and NotFound for each resource or target of a linkage that
        does not exist; or None if it cannot follow the requests before. Then nothing is applied.
        """
        self.records.savepoint(request.author)
        self.new_ids.savepoint()
        try:
            if request.key and (stored := self.records.get(request.key.record)):
                return replayed(request.key, stored, request.writes)
            results = await self._apply_all(request)
            await self._histories.add_request(request.author)
        except RequestError as error:
            self._undo()
            return error
        if results is None or not self._can_follow(request):
            self._undo()
            return None
        if request.key:
            self.records.replace(request.key.record, new_result(request.key, results))
        return results

    def _undo(self) -> None:
        self.records.undo()
        self.new_ids.undo()

    def _can_follow(self, request: WriteRequest) -> bool:
        """Whether what a request has changed can be stored together with the requests before.

        The change feed shows one author for the changes of a record in a transaction; and of unique
        attributes, only the values that are stored in the end are compared.
        """
        changed, author = self.records.before_request().keys(), request.author
        if changed & self._sealed:
            return False
        if any(self._authors.get(key, author) != author for key in changed):
            return False
        self._authors.update(dict.fromkeys(changed, author))
        self._sealed |= self._set_unique
        return True

    async def flush(self, requests: Sequence[WriteRequest], outcomes: Sequence[Outcome]) -> None:
        """Store what requests with these outcomes have changed.

        Raises ResultTooLarge; of a single request also ValueTaken for a value that only the index
        does not tell apart from that of another resource.
        """
        changes = self.records.take_changes()
        await self.new_ids.store(changes)
        for resource in self._graph.values():
            own = [change for change in changes if change.key[0] == resource.type]
            try:
                await store(self._transaction, resource, own)
            except WriteRejected as rejected:
                if len(requests) > 1:
                    raise
                results = outcomes[0] if isinstance(outcomes[0], list) else []
                stored = [(result.write, result.record) for result in results]
                raise rejection(stored, resource, rejected) from None
        try:
            kept = [change.after for change in changes if change.key[0] == RESULTS and change.after]
            await self._transaction.insert(RESULTS, kept)
        except DocumentTooLarge as error:
            if len(requests) > 1:
                raise TransactionConflict from error
            raise ResultTooLarge from error

    async def _apply_all(self, request: WriteRequest) -> list[WriteResult] | None:
        """Apply the writes of a request; raises what `apply` returns.

        If a part of the writes has to be stored before the others, the request waits, and runs
        alone.
        """
        writes, results = request.writes, list[WriteResult]()
        ids: dict[int, int] = {}
        self._set_unique.clear()
        while rest := writes[len(results) :]:
            size = max(sum(write.size for write in rest), self.records.size)
            results += await offload(partial(self._apply_part, rest, ids), size=size)
            if len(results) < len(writes):
                if not request.is_alone:
                    request.is_alone = True
                    return None
                await self.flush([request], [results])
                self._set_unique.clear()
        return results

    def _apply_part(self, writes: Sequence[Write], ids: dict[int, int]) -> list[WriteResult]:
        """Apply writes, and go on after one that is refused, so that all errors are reported.

        Stops before a write that sets unique attributes of a resource again, as the database only
        compares stored values. ids: by placeholder; those that the writes give out are added.
        """
        results: list[WriteResult] = []
        self._refusals = ErrorCollector()
        for sent in writes:
            write, id_ = self._resolve(sent, ids)
            key = write.resource.type, id_
            if key in self._set_unique and self._changes_unique(key, write):
                break
            try:
                results.append(self._apply(write, id_))
            except NotFound as error:
                self._refusals.add(error)
        self._refusals.raise_any()
        return results

    def _resolve(self, sent: Write, ids: dict[int, int]) -> tuple[Write, int]:
        """Return what a write stands for, and the id of its resource, which it gives out if new."""
        write, id_ = sent, sent.target.id
        if sent.verb is Verb.ADD:
            matching = self._values.matching_id(sent) if sent.merges else None
            if matching is not None:
                write = replace(sent, verb=Verb.UPDATE)
            elif sent.merges:
                write, errors = completed(sent)
                self._refusals.extend(errors)
            new = self.new_ids.take(sent.resource.type) if matching is None else matching
            ids[id_] = new
            return write.with_ids(ids), new
        return write.with_ids(ids), ids.get(id_, id_)

    def _changes_unique(self, key: RecordKey, write: Write) -> bool:
        """Whether a write deletes a record, or changes one of its unique attributes."""
        attributes, record = write.change.attributes, self.records.get(key) or {}
        return write.verb is Verb.REMOVE or any(
            name in attributes and not is_same(attributes[name], record.get(name))
            for name in write.resource.unique_attributes
        )

    def _apply(self, write: Write, id_: int) -> WriteResult:
        resource, change = write.resource, write.change
        key = (resource.type, id_)
        before = self.records.get(key)
        if write.verb is not Verb.ADD and before is None:
            raise NotFound.resource(resource.type, write.target.text, write.target.pointer)
        if not write.allows(version_of(before or {})):
            raise PreconditionFailed
        self._refusals.extend(self._values.conflicts(write, id_))
        if missing := self._missing_targets(change):
            self._refusals.extend(missing)
            change = replace(change, linkages=())
            write = replace(write, change=change)
        if write.verb is Verb.REMOVE:
            self._delete(resource, id_, before or {})
        elif write.verb is Verb.ADD:
            self.records.replace(key, new_record(resource, id_, change, self._time))
            self._link(resource, id_, change, {})
        else:
            self._update(write, id_, before or {})
        after = self.records.get(key)
        if after is not before and write.sets_unique:
            self.records.write_last(key)
            self._set_unique.add(key)
        if after is not None:
            self._values.update(resource, after)
        return WriteResult(write, after or before or {}, is_changed=after is not before)

    def _missing_targets(self, change: Change) -> list[NotFound]:
        errors: list[NotFound] = []
        for linkage in change.linkages:
            if linkage.verb is Verb.REMOVE:
                continue  # a record that does not exist is not a member either
            target = linkage.relationship.target
            errors += (
                NotFound.resource(target, identifier.text, identifier.pointer)
                for identifier in linkage.identifiers
                if not self.records.get((target, identifier.id))
            )
        return errors

    def _update(self, write: Write, id_: int, before: Record) -> None:
        resource, change = write.resource, write.change
        sent = change.read_only.items()
        if other := [
            name for name, value in sent if not is_same(value, resource.json_value(name, before))
        ]:
            defects = dict.fromkeys(other, ())
            self._refusals.extend(invalid_attributes(resource, defects, write.position))
        fields = changed_fields(resource, before, change.attributes)
        if fields:
            fields |= updated(change.author, self._time)
        fields |= changed_fields(resource, before, foreign_keys(change))
        to_many = [linkage for linkage in change.linkages if linkage.relationship.to_many]
        if fields or any(
            self.records.removed_members(id_, linkage) or self.records.added_members(id_, linkage)
            for linkage in to_many
        ):
            self.records.update((resource.type, id_), fields)
            self._link(resource, id_, change, before)

    def _link(self, resource: ResourceType, id_: int, change: Change, before: Record) -> None:
        """Change the other side of links. before: the record before the change."""
        records = self.records
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
                for member in self.records.removed_members(id_, Linkage(relationship, ())):
                    self.records.update(member, {foreign_key: None})
            else:
                self.records.increment_version(target, record.get(foreign_key))
        self.records.replace((resource.type, id_), None)
