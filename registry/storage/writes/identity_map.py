"""The records of a unit of work: each is loaded once, replaced in memory, and stored once."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias

from registry.jsonapi.changes import Linkage, Verb
from registry.model.graph import Graph
from registry.model.record import ID, LAST_WRITE, VERSION, Record, version_of
from registry.model.resource_type import ResourceType
from registry.storage.counters import NewIds
from registry.storage.mongo.transactions import Statement, Transaction
from registry.storage.records import id_condition, projection, tracked_fields

_MAX_STATEMENTS = 1_000
"""Records per command: while the driver encodes them, no other thread runs."""

RecordKey: TypeAlias = tuple[str, Hashable]
"""What identifies a record: its type and its id."""

Wanted: TypeAlias = dict[str, dict[str, set[int]]]
"""The records to load, by type: those that have one of these values of a field."""

RESULTS = "idempotency_keys"
"""The collection of the results of requests with a key, and their type in a RecordKey."""

_ABSENT = object()


@dataclass(slots=True)
class RecordChange:
    """A record as it is stored, None if it is new, and as it is to be, None if it is deleted."""

    id: Any
    before: Record | None
    after: Record | None


class IdentityMap(dict[RecordKey, Record | None]):
    """The records of all types, by type and id, also periods and results of idempotency keys.

    None stands for a record that is deleted. Records are replaced, by `put`, never modified, so
    that a result keeps the state that its write has left. `load` and `store` block and raise
    PyMongoError. last_ids: as `known` of NewIds. author: of the current request. before_request:
    the records that it has changed, as they were before it.
    """

    def __init__(
        self, transaction: Transaction, graph: Graph, last_ids: Mapping[str, int] | None
    ) -> None:
        super().__init__()
        self._transaction = transaction
        self._graph = graph
        self.new_ids = NewIds(transaction, last_ids)
        self.before_request: dict[RecordKey, Record | None] = {}
        self.author: str | None = None
        self._foreign_keys = {
            resource.type: [link.foreign_key for link in resource.links]
            for resource in graph.values()
            if resource.links and not resource.read_only
        }
        self._members: dict[tuple[str, str, int], set[Hashable]] = defaultdict(set)
        self._stored: dict[RecordKey, Record] = {}
        self._changed: dict[RecordKey, None] = {}  # in the order in which they have to be written

    def load(self, wanted: Wanted, limit: int, *, follows_links: bool) -> str | None:
        """Load records; return a type that has more members than are loaded, if any.

        limit: of the records of each type besides those that are wanted by their ids.
        follows_links: whether to load the targets of the links of these records as well.
        """
        too_many = None
        # Targets come last where possible: the records that lead to them are then known.
        for resource in sorted(self._graph.writable, key=lambda resource: not resource.links):
            records, is_complete = self._find(resource, wanted.pop(resource.type, {}), limit)
            too_many = too_many if is_complete else resource.type
            for link in resource.links if follows_links else ():
                for record in records:
                    if (target := record.get(link.foreign_key)) is not None:
                        wanted[link.target][ID].add(target)
        for type_name, values in wanted.items():
            unknown = {id_ for id_ in values[ID] if not self.get((type_name, id_))}
            self._find(self._graph[type_name], {ID: unknown}, limit)
        return too_many

    def _find(
        self, resource: ResourceType, values: Mapping[str, set[int]], limit: int
    ) -> tuple[list[Record], bool]:
        """Load and return records of a type, and whether these are all with such values."""
        conditions = [{name: id_condition(list(ids))} for name, ids in values.items() if ids]
        if not conditions:
            return [], True
        query = {"$or": conditions} if len(conditions) > 1 else conditions[0]
        limit += len(values.get(ID, ()))
        fields = projection(tracked_fields(resource))
        records = self._transaction.find(resource.collection, query, fields, limit=limit + 1)
        self.add(resource.type, records)
        return records, len(records) <= limit

    def add(self, type_name: str, records: Iterable[Record]) -> None:
        """Add stored records."""
        for record in records:
            key = (type_name, record[ID])
            self._stored[key] = record
            self._set(key, record)

    def savepoint(self, author: str | None) -> None:
        """Begin a request of an author: `before_request` and `undo` refer to it from now on."""
        self.before_request = {}
        self.author = author
        self.new_ids.savepoint()

    def undo(self) -> None:
        """Undo what was changed since the savepoint."""
        for key, record in self.before_request.items():
            self._set(key, record)
        self.before_request = {}
        self.new_ids.undo()

    def put(self, key: RecordKey, record: Record | None) -> None:
        """Replace a record; None deletes it."""
        self.before_request.setdefault(key, self.get(key))
        self._changed.setdefault(key)
        self._set(key, record)

    def change(self, key: RecordKey, fields: Record) -> None:
        """Set fields of a record and increment its version."""
        before = self[key] or {}
        version = version_of(before) + 1
        after = before | fields | {VERSION: version}
        if fields and self.author is not None:
            after[LAST_WRITE] = f"{version} {self.author}"
        self.put(key, after)

    def increment_version(self, type_name: str, id_: int | None) -> None:
        """Increment the version of a record, if there is one."""
        if self.get((type_name, id_)) is not None:
            self.change((type_name, id_), {})

    def write_last(self, key: RecordKey) -> None:
        """Write a record after those that were changed before it."""
        self._changed.pop(key, None)
        self._changed[key] = None

    def move(self, owner: tuple[str, int], linkage: Linkage) -> int:
        """Change the members of an owner by a to-many linkage; return how many change."""
        type_name, owner_id = owner
        target, field = linkage.relationship.target, linkage.relationship.foreign_key
        moved = 0
        if linkage.verb is not Verb.ADD:
            members, named = self._members[target, field, owner_id], set(linkage.ids)
            removed = members & named if linkage.verb is Verb.REMOVE else members - named
            for id_ in removed:
                self.change((target, id_), {field: None})
            moved = len(removed)
        if linkage.verb is not Verb.REMOVE:
            for id_ in linkage.ids:
                previous = (self[target, id_] or {}).get(field)
                if previous != owner_id:
                    self.change((target, id_), {field: owner_id})
                    self.increment_version(type_name, previous)
                    moved += 1
        return moved

    def count_members(self) -> None:
        """Update the counts of members of what the current request has linked to and unlinked from.

        All these records are loaded. Call it after all changes of links: their net effect counts.
        """
        numbers: dict[RecordKey, dict[str, int]] = {}
        for key, before in self.before_request.items():
            after = self[key]
            for name, target, field in _counted_links(self._graph[key[0]]):
                former = before.get(name) if before else None
                new = after.get(name) if after else None
                if former == new:
                    continue
                for id_, number in ((former, -1), (new, 1)):
                    if id_ is not None:
                        own = numbers.setdefault((target, id_), {})
                        own[field] = own.get(field, 0) + number
        for key, changes in numbers.items():
            if (record := self.get(key)) is not None:
                counted = record.copy()
                for field, number in changes.items():
                    # A dry run of rows knows links of its earlier batches that are not counted.
                    counted[field] = max(0, record.get(field, 0) + number)
                self.put(key, counted)

    def _take_changes(self) -> dict[str, list[RecordChange]]:
        """Return what has to be written, once, by type and in order."""
        changes = defaultdict[str, list[RecordChange]](list)
        for key in self._changed:
            before, after = self._stored.get(key), self[key]
            if before is not after:
                changes[key[0]].append(RecordChange(key[1], before, after))
            if after is None:
                self._stored.pop(key, None)
            else:
                self._stored[key] = after
        self._changed.clear()
        return changes

    def store(self) -> None:
        """Store what has changed, with the counters. Raises WriteRejected or CountersChanged."""
        changes = self._take_changes()
        created, removed = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for type_name, own in changes.items():
            for change in own:
                if change.before is None:
                    created[type_name].append(change.id)
                elif change.after is None:
                    removed[type_name].append(change.id)
        self.new_ids.store(created, removed)
        for resource in self._graph.values():
            if resource.type in changes:
                self._store(resource, changes[resource.type])
        if RESULTS in changes:
            results = [change.after for change in changes[RESULTS] if change.after]
            self._transaction.insert(RESULTS, results)

    def _store(self, resource: ResourceType, changes: Sequence[RecordChange]) -> None:
        # In order, as a resource may get the unique value that another one had before.
        ordered = changes if resource.unique_attributes else sorted(changes, key=_command)
        for command, of_command in groupby(ordered, _command):
            some = list(of_command)
            for start in range(0, len(some), _MAX_STATEMENTS):
                chunk = some[start : start + _MAX_STATEMENTS]
                if command == "insert":
                    documents = [change.after for change in chunk if change.after]
                    self._transaction.insert(resource.collection, documents)
                elif command == "delete":
                    query = {ID: id_condition([change.id for change in chunk])}
                    self._transaction.delete(resource.collection, query)
                else:
                    self._transaction.update(resource.collection, _updates(chunk, resource))

    def _set(self, key: RecordKey, record: Record | None) -> None:
        type_name, id_ = key
        for field in self._foreign_keys.get(type_name, ()):
            former, owner = (self.get(key) or {}).get(field), (record or {}).get(field)
            if former != owner:
                if former is not None:
                    self._members[type_name, field, former].discard(id_)
                if owner is not None:
                    self._members[type_name, field, owner].add(id_)
        self[key] = record


@lru_cache(maxsize=64)
def _counted_links(resource: ResourceType) -> Sequence[tuple[str, str, str]]:
    """Return the foreign key of each counted link, its target, and the field with the number."""
    return [
        (link.foreign_key, link.target, field)
        for link in resource.links
        if (field := link.count_field)
    ]


def _command(change: RecordChange) -> str:
    if change.after is None:
        return "delete"
    return "insert" if change.before is None else "update"


def _updates(changes: Sequence[RecordChange], resource: ResourceType) -> list[Statement]:
    """Return the statements of updates: one for all records in which the same links change."""
    alike: dict[Hashable, tuple[Mapping[str, Any], list[Any]]] = {}
    numbers = (VERSION, *resource.count_fields.values())
    links = {LAST_WRITE, *numbers, *resource.tracking_fields}
    links.update(link.foreign_key for link in resource.links)
    for change in changes:
        before, after = change.before or {}, change.after or {}
        fields = {
            name: value for name, value in after.items() if before.get(name, _ABSENT) is not value
        }
        update, same = {"$set": fields}, change.id
        if fields.keys() <= links:  # increments are the same for owners with different numbers
            increments = {
                name: fields.pop(name) - before.get(name, 0) for name in numbers if name in fields
            }
            update["$inc"] = increments
            same = (*fields.items(), *increments.items())
        alike.setdefault(same, (update, []))[1].append(change.id)
    return [
        {"q": {ID: id_condition(ids)}, "u": update, "multi": len(ids) > 1}
        for update, ids in alike.values()
    ]
