"""The identity map of a unit of work: each record once, as the requests so far have left it."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

from pymongo import InsertOne, UpdateMany, UpdateOne

from registry.jsonapi.changes import Linkage, Mode
from registry.model.record import VERSION, Record, hashable_id
from registry.model.resource import Resource
from registry.storage.records import key_of, next_version, version_of

WriteOperation: TypeAlias = "InsertOne[Record] | UpdateOne | UpdateMany"


class IdentityMap:
    """The records of one type by id: their current state, and the operations that write it.

    New records, and those whose unique attributes change, are written in the order of the requests:
    one may get the value that another one had before.
    """

    def __init__(self, resource: Resource) -> None:
        self._records: dict[Hashable, Record] = {}
        self._members: dict[str, dict[int, set[Hashable]]] = {
            link.foreign_key: defaultdict(set) for link in resource.links
        }
        self._unique = frozenset(resource.unique_attributes)
        self._in_order: dict[Hashable, bool] = {}  # by id, whether the record is new
        self._changed: dict[Hashable, Record] = defaultdict(dict)
        self._incremented: set[int] = set()

    def get(self, id_: Hashable) -> Record | None:
        """Return the current state of a record, a dict that later updates do not modify."""
        return self._records.get(id_)

    def load(self, records: Sequence[Record]) -> None:
        """Add stored records; external writers may have stored ids that are documents."""
        for record in records:
            self._set(hashable_id(record["_id"]), record)

    def add(self, record: Record) -> None:
        """Add a new record, which is yet to be inserted."""
        self._in_order[record["_id"]] = True
        self._set(record["_id"], record)

    def update(self, id_: Hashable, values: Record) -> None:
        """Set fields of a record, and increment its version."""
        before = self._records[id_]
        for field, members in self._members.items():
            if field in values and (key := key_of(before, field)) is not None:
                members[key].discard(id_)
        changed = values | {VERSION: version_of(before) + 1}
        self._changed[id_] |= changed
        if not self._unique.isdisjoint(values):
            self._in_order.setdefault(id_, False)
        self._set(id_, before | changed)

    def increment_version(self, id_: int | None) -> None:
        """Increment the version of a record, even one that is not loaded or does not exist."""
        if id_ in self._records:
            self.update(id_, {})
        elif id_ is not None:
            self._incremented.add(id_)

    def removed_members(self, owner: int, linkage: Linkage) -> list[Hashable]:
        """Return the ids of the members that a linkage removes from the owner."""
        if linkage.mode is Mode.ADD:
            return []
        members, ids = self._members[linkage.relationship.foreign_key][owner], set(linkage.ids)
        return list(members & ids if linkage.mode is Mode.REMOVE else members - ids)

    def added_members(self, owner: int, linkage: Linkage) -> list[tuple[int, int | None]]:
        """Return (id, current owner) of the members that a linkage adds to the owner."""
        if linkage.mode is Mode.REMOVE:
            return []
        field = linkage.relationship.foreign_key
        members = [(id_, key_of(self._records[id_], field)) for id_ in linkage.ids]
        return [(id_, current) for id_, current in members if current != owner]

    def take_operations(self) -> Iterator[tuple[Hashable, WriteOperation]]:
        """Yield the operations, once: each with the id of its record, None for several records."""
        for id_, is_new in self._in_order.items():
            values = self._changed.pop(id_, {})
            # As later changes left it: inserting and then updating it would write it twice.
            yield id_, InsertOne(self._records[id_]) if is_new else self._update_of(id_, values)
        for id_, values in self._changed.items():
            yield id_, self._update_of(id_, values)
        if ids := list(self._incremented):
            yield None, UpdateMany({"_id": {"$in": ids}}, [{"$set": next_version({})}])

    def _update_of(self, id_: Hashable, values: Record) -> UpdateOne:
        return UpdateOne({"_id": self._records[id_]["_id"]}, {"$set": values})

    def _set(self, id_: Hashable, record: Record) -> None:
        self._records[id_] = record
        for field, members in self._members.items():
            if (key := key_of(record, field)) is not None:
                members[key].add(id_)
