"""The unit of work: loads records, applies writes to them in memory, and stores the result."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

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
from registry.model.record import ID, Record, version_of
from registry.model.resource_type import ResourceType
from registry.offloading import offload
from registry.storage.mongo.transactions import Transaction, TransactionConflict, WriteRejected
from registry.storage.records import (
    changed_fields,
    foreign_keys,
    is_same,
    new_record,
)
from registry.storage.writes.histories import add_history
from registry.storage.writes.identity_map import RESULTS, IdentityMap, RecordKey, Wanted
from registry.storage.writes.unique_values import UniqueValues, completed, rejection
from registry.storage.writes.write_requests import (
    Outcome,
    WriteRequest,
    WriteResult,
    new_result,
    replayed,
)

_MAX_MEMBERS = 5_000
"""Members of relationships that a group loads. If there are more, each of its requests runs
alone, and one that has more is large."""

_MAX_MEMBERS_OF_LARGE = 20_000
"""Members that a large request may unlink, in some seconds. A request document can name 16,000."""

_MAX_SHARED = 1_000
"""Members that a request unlinks in a group, in 0.25 s. One that unlinks more is large."""


class _IsLarge(Exception):
    """A request needs a transaction of its own, which may take long."""


class UnitOfWork:
    """Applies requests in order to records in memory, and stores the result.

    It needs a transaction, so that loaded records are still current when it stores them. A resource
    gets its next version when its attributes or its relationships change, even those stored on the
    other side. So if one request links to a resource while another deletes it, they conflict. A
    request that changes nothing stores nothing. For a request whose idempotency key has a result,
    it returns that result.

    What loads and stores blocks, so it runs in a thread. A single request does so from the
    beginning to the end: it may be large, and may have to store a part of its writes first. Several
    are applied where the event loop runs, as two threads that compute would slow each other down.

    last_ids: those after the transaction before, if they are known.
    """

    def __init__(
        self, transaction: Transaction, graph: Graph, last_ids: Mapping[str, int] | None
    ) -> None:
        self._transaction = transaction
        self._graph = graph
        self._records = IdentityMap(transaction, graph, last_ids)
        self._set_unique = set[RecordKey]()  # whose unique attributes are changed, but not stored
        self._is_alone = self._is_large = False
        self._has_authors = False  # several, whose changes of a record must be told apart
        self._authors: dict[RecordKey, str | None] = {}  # of the changes, by record
        self._time = current_time()

    @cached_property
    def _unique(self) -> UniqueValues:
        """Who has the values of unique attributes, for types that have some."""
        return UniqueValues(self._transaction, self._records)

    @property
    def last_ids(self) -> Mapping[str, int] | None:
        """The last id of each type after this transaction, None if it is not known."""
        return self._records.new_ids.last

    async def run(self, requests: Sequence[WriteRequest]) -> list[Outcome]:
        """Apply requests, and commit what they change; return the outcome of each, without a time.

        requests: those of a group, or a single one that is alone in its transaction. Raises
        ResultTooLarge, PyMongoError and TransactionConflict, and for a single request also
        ValueTaken if only the unique index finds its value equal to another, and what a request
        that is alone is refused with.
        """
        first, *others = requests
        self._is_alone, self._is_large = first.is_alone, first.is_large
        self._has_authors = any(request.author != first.author for request in others)
        if not others:
            run = partial(self._run_single, first)
            return await self._transaction.run(run, commits=not first.rolls_back)
        if self._has_to_read(requests):
            await self._transaction.run(partial(self._load, requests))
        else:  # the thread would only wait for the interpreter
            self._load(requests)
        outcomes = await offload(
            lambda: [self._apply(request) for request in requests], size=len(self._records)
        )
        await self._transaction.run(partial(self._store, outcomes), commits=True)
        return outcomes

    def _has_to_read(self, requests: Sequence[WriteRequest]) -> bool:
        """Whether `_load` reads: not for new resources without links, keys and unique values."""
        return not self._records.new_ids.are_known or any(
            request.key
            or request.changes_links
            or any(write.verb is not Verb.ADD or write.sets_unique for write in request.writes)
            for request in requests
        )

    def _run_single(self, request: WriteRequest) -> list[Outcome]:
        try:
            self._load([request])
        except _IsLarge:
            request.is_alone = request.is_large = True
            return [None]
        outcome = self._apply(request)
        if self._is_alone and isinstance(outcome, RequestError):
            raise outcome
        self._store([outcome])
        return [outcome]

    def _load(self, requests: Sequence[WriteRequest]) -> None:
        """Load the resources, the targets of their linkages, and members that may be removed.

        Also load the former targets of links: their versions change, and histories copy their
        attributes. If requests may remove too many members, raises TooManyRelated for a large one,
        _IsLarge for another one, and TransactionConflict for several.
        """
        if keys := [request.key.id for request in requests if request.key]:
            self._records.add(RESULTS, self._transaction.find(RESULTS, {ID: {"$in": keys}}))
        wanted: Wanted = defaultdict(partial(defaultdict, set))
        writes = [write for request in requests for write in request.writes]
        for write in writes:
            _add_wanted(wanted, write)
        if any(write.sets_unique for write in writes):
            self._load_unique(writes, wanted)
        changes_links = any(request.changes_links for request in requests)
        creates = self._graph.revisions or any(write.verb is Verb.ADD for write in writes)
        if changes_links or creates:
            self._records.new_ids.load(holds=self._is_alone)
        limit = _MAX_MEMBERS_OF_LARGE if self._is_large else _MAX_MEMBERS
        if too_many := self._records.load(wanted, limit, follows_links=changes_links):
            if not self._is_large:
                raise TransactionConflict if len(requests) > 1 else _IsLarge
            raise TooManyRelated(
                f"This would unlink more than {limit} resources of the type `{too_many}` at once. "
                "Nothing was changed; remove some of them from the relationship first."
            )

    def _load_unique(self, writes: Iterable[Write], wanted: Wanted) -> None:
        """Want the records with the unique values that writes set."""
        for type_name, ids in self._unique.load(writes).items():
            wanted[type_name][ID].update(ids)
        for write in writes:
            for linkage in write.change.linkages if write.merges else ():
                if linkage.relationship.to_many:
                    members = wanted[linkage.relationship.target][linkage.relationship.foreign_key]
                    members.update(wanted[write.resource.type][ID])

    def _apply(self, request: WriteRequest) -> Outcome:
        """Apply the writes of a request in order; return the result of each, without a time.

        Returns an error: IdempotencyKeyReused, PreconditionFailed, or all errors of the request
        among InvalidField, ValueTaken, and NotFound for each resource or target of a linkage that
        does not exist; or None if it cannot follow the requests before. Then nothing is applied.
        """
        self._records.savepoint(request.author)
        outcome: Outcome = None
        try:
            if request.key and (stored := self._records.get(request.key.record)):
                return replayed(request.key, stored, request.writes)
            results = self._apply_writes(request.writes, changes_links=request.changes_links)
            if not (self._has_authors and self._has_other_author(request)):
                if request.key:
                    self._records.put(request.key.record, new_result(request.key, results))
                return results
        except _IsLarge:
            request.is_alone = request.is_large = True
        except RequestError as error:
            outcome = error
        self._records.undo()
        return outcome

    def _has_other_author(self, request: WriteRequest) -> bool:
        """Whether a request has changed what one of another author has changed before.

        The change feed shows one author for the changes of a record in a transaction.
        """
        changed, author = self._records.before_request, request.author
        if any(self._authors.get(key, author) != author for key in changed):
            return True
        self._authors.update(dict.fromkeys(changed, author))
        return False

    def _apply_writes(self, writes: Sequence[Write], *, changes_links: bool) -> list[WriteResult]:
        """Apply writes, and go on after one that is refused, so that all errors are reported.

        changes_links: whether they may change links. Raises what `_apply` returns, or _IsLarge.
        """
        results, errors, ids = list[WriteResult](), ErrorCollector(), dict[int, int]()
        self._set_unique.clear()
        for sent in writes:
            write, id_ = sent, sent.target.id
            if sent.verb is Verb.ADD:
                write, ids[id_] = self._resolve(sent, errors)
            if ids:
                write, id_ = write.with_ids(ids), ids.get(id_, id_)
            key = write.resource.type, id_
            if key in self._set_unique and self._changes_unique(key, write):
                errors.raise_any()
                self._store_first(results)
            try:
                results.append(self._apply_write(write, id_, errors))
            except NotFound as error:
                errors.add(error)
        errors.raise_any()
        if changes_links or self._graph.revisions:
            add_history(self._records, self._graph, self._time, changes_links=changes_links)
        if changes_links:
            self._count_members(results)
        return results

    def _count_members(self, results: Iterable[WriteResult]) -> None:
        """Change the numbers of members, also in the results."""
        self._records.count_members()
        for result in results:
            resource = result.write.resource
            if after := self._records[resource.type, result.record[ID]]:
                names = resource.count_fields.values()
                counts = {name: after[name] for name in names if name in after}
                result.record = result.record | counts

    def _store_first(self, results: list[WriteResult]) -> None:
        """Store the first writes of a request that sets unique attributes of a resource again.

        The database only compares stored values. Raises _IsLarge, or what `run` does.
        """
        if not self._is_alone:
            raise _IsLarge
        self._store([results])
        self._set_unique.clear()

    def _resolve(self, sent: Write, errors: ErrorCollector) -> tuple[Write, int]:
        """Return what an addition stands for, and the id of its resource."""
        write, type_name = sent, sent.resource.type
        if sent.merges:
            matching = self._unique.matching_id(sent)
            if matching is not None:
                return replace(sent, verb=Verb.UPDATE), matching
            write = completed(sent, errors)
        return write, self._records.new_ids.take(type_name)

    def _changes_unique(self, key: RecordKey, write: Write) -> bool:
        """Whether a write deletes a record, or changes one of its unique attributes."""
        attributes, record = write.change.attributes, self._records.get(key) or {}
        return write.verb is Verb.REMOVE or any(
            name in attributes and not is_same(attributes[name], record.get(name))
            for name in write.resource.unique_attributes
        )

    def _apply_write(self, write: Write, id_: int, errors: ErrorCollector) -> WriteResult:
        resource, change, records = write.resource, write.change, self._records
        key = (resource.type, id_)
        before = records.get(key)
        if write.verb is not Verb.ADD and before is None:
            raise NotFound.resource(resource.type, write.target.text, write.target.pointer)
        if not write.allows(version_of(before or {})):
            raise PreconditionFailed
        if resource.unique_attributes:
            errors.extend(self._unique.conflicts(write, id_))
        if change.linkages and (missing := self._missing_targets(change)):
            errors.extend(missing)
            change = replace(change, linkages=())
            write = replace(write, change=change)
        if write.verb is Verb.ADD:
            records.put(key, new_record(resource, id_, change, self._time, records.author))
            self._link(resource, id_, change, {})
        elif write.verb is Verb.UPDATE:
            self._update(write, id_, before or {}, errors)
        else:
            self._delete(resource, id_, before or {})
        after = records[key]
        if resource.unique_attributes:
            if after is not before and write.sets_unique:
                records.write_last(key)
                self._set_unique.add(key)
            if after is not None:
                self._unique.update(resource, after)
        return WriteResult(write, after or before or {}, after is not before)

    def _missing_targets(self, change: Change) -> list[NotFound]:
        return [
            NotFound.resource(linkage.relationship.target, identifier.text, identifier.pointer)
            for linkage in change.linkages
            if linkage.verb is not Verb.REMOVE  # of one that does not exist has no effect
            for identifier in linkage.identifiers
            if not self._records.get((linkage.relationship.target, identifier.id))
        ]

    def _update(self, write: Write, id_: int, before: Record, errors: ErrorCollector) -> None:
        resource, change = write.resource, write.change
        differing = {
            name: ()
            for name, value in change.read_only.items()
            if not is_same(value, resource.json_value(name, before))
        }
        errors.extend(invalid_attributes(resource, differing, write.position))
        fields = changed_fields(resource, before, change.attributes)
        if fields:
            fields |= updated(self._records.author, self._time)
        fields |= changed_fields(resource, before, foreign_keys(change))
        key = (resource.type, id_)
        if fields:
            self._records.change(key, fields)
        if self._link(resource, id_, change, before) and not fields:
            self._records.change(key, {})

    def _link(self, resource: ResourceType, id_: int, change: Change, before: Record) -> bool:
        """Change the other side of links; return whether members of the resource have changed.

        before: the record before the change.
        """
        has_moved = False
        for linkage in change.linkages:
            relationship, records = linkage.relationship, self._records
            if relationship.to_many:
                has_moved |= self._move((resource.type, id_), linkage) > 0
                continue
            previous, new = before.get(relationship.foreign_key), next(iter(linkage.ids), None)
            if previous != new:
                records.increment_version(relationship.target, previous)
                records.increment_version(relationship.target, new)
        return has_moved

    def _move(self, owner: tuple[str, int], linkage: Linkage) -> int:
        """Change the members of an owner; return how many change. Raises _IsLarge."""
        moved = self._records.move(owner, linkage)
        if moved > _MAX_SHARED and not self._is_large:
            raise _IsLarge
        return moved

    def _delete(self, resource: ResourceType, id_: int, record: Record) -> None:
        """Delete a record and all links to it. Raises _IsLarge."""
        for relationship in resource.writable_relationships.values():
            if relationship.to_many:
                self._move((resource.type, id_), Linkage(relationship, ()))
            else:
                former = record.get(relationship.foreign_key)
                self._records.increment_version(relationship.target, former)
        self._records.put((resource.type, id_), None)

    def _store(self, outcomes: Sequence[Outcome]) -> None:
        """Store what requests with these outcomes have changed. Raises what `run` does."""
        is_shared = len(outcomes) > 1
        try:
            self._records.store()
        except WriteRejected as rejected:
            if is_shared:
                raise
            raise rejection(outcomes[0], rejected) from None
        except DocumentTooLarge as error:  # the results of one request
            raise (TransactionConflict if is_shared else ResultTooLarge) from error


def _add_wanted(wanted: Wanted, write: Write) -> None:
    """Add the resource of a write, and those at the other ends of the links that it changes."""
    id_, resource = write.target.id, write.resource
    own = {id_} if id_ > 0 else set[int]()  # a new resource has only a placeholder
    wanted[resource.type][ID] |= own
    for linkage in write.change.linkages:
        relationship = linkage.relationship
        wanted[relationship.target][ID].update(id_ for id_ in linkage.ids if id_ > 0)
        if relationship.to_many and linkage.verb is Verb.UPDATE:
            wanted[relationship.target][relationship.foreign_key] |= own
    if write.verb is Verb.REMOVE:
        for relationship in resource.writable_relationships.values():
            if relationship.to_many:
                wanted[relationship.target][relationship.foreign_key] |= own
