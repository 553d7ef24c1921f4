"""The records of a unit of work: each once, as the writes have left it, and how they are stored."""

import logging
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from registry.jsonapi.changes import Linkage, Verb, Write
from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import Unavailable, ValueTaken
from registry.model.graph import Graph
from registry.model.record import ID, LAST_WRITE, VERSION, Record, version_of
from registry.model.resource_type import ResourceType
from registry.storage.errors import DUPLICATE_KEY, VALIDATION_FAILURE, RecordRefused
from registry.storage.mongo.transactions import Transaction, WriteRejected
from registry.storage.records import id_condition

_log = logging.getLogger("registry")

_MAX_STATEMENTS = 1_000
"""Records per command: while the driver encodes them, no other thread runs."""

RecordKey: TypeAlias = tuple[str, Hashable]
"""What identifies a record: its type and its id."""

_ABSENT = object()


@dataclass(slots=True)
class RecordChange:
    """A record as it is stored, None if it is new, and as it is to be, None if it is deleted."""

    key: RecordKey
    before: Record | None
    after: Record | None

    @property
    def fields(self) -> Record:
        """The fields that differ, of a record that is neither new nor deleted."""
        before, after = self.before or {}, self.after or {}
        return {
            name: value for name, value in after.items() if before.get(name, _ABSENT) is not value
        }


class IdentityMap:
    """The records of all types, by type and id, also periods and results of idempotency keys.

    Records are replaced, never modified, so that a result keeps the state that its write has left.
    What a request has changed since its savepoint can be undone.
    """

    def __init__(self, graph: Graph) -> None:
        self._links = {
            resource.type: [link.foreign_key for link in resource.links]
            for resource in graph.writable
        }
        self._author: str | None = None
        self._stored: dict[RecordKey, Record] = {}
        self._records: dict[RecordKey, Record | None] = {}
        self._members: dict[tuple[str, str, int], set[Hashable]] = defaultdict(set)
        self._changed: dict[RecordKey, None] = {}  # in the order in which they have to be written
        self._before: dict[RecordKey, Record | None] = {}  # what the request has changed

    def load(self, type_name: str, records: Iterable[Record]) -> None:
        """Add stored records."""
        for record in records:
            key = (type_name, record["_id"])
            self._stored[key] = record
            self._put(key, record)

    @property
    def size(self) -> int:
        """The number of records."""
        return len(self._records)

    def get(self, key: RecordKey) -> Record | None:
        """Return the current state of a record, None if there is none."""
        return self._records.get(key)

    def replace(self, key: RecordKey, record: Record | None) -> None:
        """Replace a record; None deletes it."""
        self._before.setdefault(key, self._records.get(key))
        self._changed.setdefault(key)
        self._put(key, record)

    def update(self, key: RecordKey, fields: Record) -> None:
        """Set fields of a record and increment its version."""
        before = self._records[key] or {}
        version = version_of(before) + 1
        after = before | fields | {VERSION: version}
        if fields and self._author is not None:
            after[LAST_WRITE] = f"{version} {self._author}"
        self.replace(key, after)

    def increment_version(self, type_name: str, id_: int | None) -> None:
        """Increment the version of a record, if there is one."""
        if self._records.get((type_name, id_)) is not None:
            self.update((type_name, id_), {})

    def write_last(self, key: RecordKey) -> None:
        """Write a record after those that were changed before it."""
        self._changed.pop(key, None)
        self._changed[key] = None

    def removed_members(self, owner: int, linkage: Linkage) -> list[RecordKey]:
        """Return the members that a linkage removes from the owner."""
        if linkage.verb is Verb.ADD:
            return []
        relationship, ids = linkage.relationship, set(linkage.ids)
        members = self._members[relationship.target, relationship.foreign_key, owner]
        removed = members & ids if linkage.verb is Verb.REMOVE else members - ids
        return [(relationship.target, id_) for id_ in removed]

    def added_members(self, owner: int, linkage: Linkage) -> list[tuple[RecordKey, int | None]]:
        """Return the members that a linkage adds to the owner, each with its current owner."""
        if linkage.verb is Verb.REMOVE:
            return []
        keys = [(linkage.relationship.target, id_) for id_ in linkage.ids]
        field = linkage.relationship.foreign_key
        members = [(key, (self._records[key] or {}).get(field)) for key in keys]
        return [(key, current) for key, current in members if current != owner]

    def savepoint(self, author: str | None) -> None:
        """Begin a request of an author: `before_request` and `undo` refer to it from now on."""
        self._before = {}
        self._author = author

    def before_request(self) -> Mapping[RecordKey, Record | None]:
        """Return the records that were changed since the savepoint, as they were then."""
        return self._before

    def undo(self) -> None:
        """Undo what was changed since the savepoint."""
        for key, record in self._before.items():
            self._put(key, record)
        self._before = {}

    def take_changes(self) -> list[RecordChange]:
        """Return what has to be written, once, in order."""
        changes = [
            RecordChange(key, self._stored.get(key), self._records[key]) for key in self._changed
        ]
        for change in changes:
            if change.after is None:
                self._stored.pop(change.key, None)
            else:
                self._stored[change.key] = change.after
        self._changed.clear()
        return [change for change in changes if change.before is not change.after]

    def _put(self, key: RecordKey, record: Record | None) -> None:
        type_name, id_ = key
        for field in self._links.get(type_name, ()):
            owner = (self._records.get(key) or {}).get(field)
            if owner is not None:
                self._members[type_name, field, owner].discard(id_)
            owner = (record or {}).get(field)
            if owner is not None:
                self._members[type_name, field, owner].add(id_)
        self._records[key] = record


async def store(
    transaction: Transaction, resource: ResourceType, changes: Sequence[RecordChange]
) -> None:
    """Store changes of records of a type. Raises WriteRejected."""
    # In order, as a resource may get the unique value that another one had before.
    ordered = changes if resource.unique_attributes else sorted(changes, key=_command)
    for command, some in groupby(ordered, _command):
        of_command = list(some)
        for start in range(0, len(of_command), _MAX_STATEMENTS):
            chunk = of_command[start : start + _MAX_STATEMENTS]
            await _store(transaction, command, resource, chunk)


def rejection(
    results: Sequence[tuple[Write, Record]], resource: ResourceType, rejected: WriteRejected
) -> RequestError:
    """Return why MongoDB has rejected what a request has stored.

    results: its writes, each with the record as it has left it.
    """
    error = rejected.error
    key = list(error.get("keyPattern", ())) if error["code"] == DUPLICATE_KEY else []
    for write, record in reversed(results):
        # Another service may have created the index.
        is_rejected = write.resource is resource and record[ID] == rejected.id
        if is_rejected and len(key) == 1 and key[0] in write.change.attributes:
            pointer = write.position / "attributes" / key[0]
            return ValueTaken(resource.type, key[0], pointer, None)
    _log.error("MongoDB rejects %s/%s: %s", resource.collection, rejected.id, error.get("errmsg"))
    return RecordRefused() if error["code"] == VALIDATION_FAILURE else Unavailable()


def _command(change: RecordChange) -> str:
    if change.after is None:
        return "delete"
    return "insert" if change.before is None else "update"


async def _store(
    transaction: Transaction, command: str, resource: ResourceType, changes: Sequence[RecordChange]
) -> None:
    name = resource.collection
    if command == "insert":
        await transaction.insert(name, [change.after for change in changes if change.after])
    elif command == "delete":
        ids = [change.before["_id"] for change in changes if change.before]
        await transaction.delete(name, [{"q": {"_id": id_condition(ids)}, "limit": 0}])
    else:
        await transaction.update(name, _updates(changes, resource))


def _updates(changes: Sequence[RecordChange], resource: ResourceType) -> list[dict[str, Any]]:
    """Return the statements of updates: one for all records in which the same links change."""
    links = {VERSION, LAST_WRITE, *(link.foreign_key for link in resource.links)}
    links |= {*resource.tracking_fields}
    alike: dict[Hashable, tuple[Record, list[Any]]] = {}
    for change in changes:
        fields = change.fields
        key = tuple(fields.items()) if fields.keys() <= links else change.key
        alike.setdefault(key, (fields, []))[1].append(change.key[1])
    return [
        {"q": {"_id": id_condition(ids)}, "u": {"$set": fields}, "multi": len(ids) > 1}
        for fields, ids in alike.values()
    ]
