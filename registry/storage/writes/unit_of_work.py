"""Changes of resources and of their links, several in one go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorDatabase
from pymongo import InsertOne, UpdateMany, UpdateOne

from registry.jsonapi.errors import ApiErrors, ErrorCollector, NotFound, PreconditionFailed
from registry.jsonapi.request_documents import Change, Linkage, Mode
from registry.model.graph import Graph
from registry.model.record import VERSION, Record
from registry.model.resource import Resource
from registry.storage.projections import visible
from registry.storage.records import (
    NEXT_VERSION,
    RECORDS_A_REPLY,
    Versions,
    joining,
    key_of,
    keys,
    new_record,
    version_of,
)

_Command: TypeAlias = "InsertOne[Record] | UpdateOne | UpdateMany"


class IdTaken(Exception):
    """Another tool has stored a record under an id that was to be given."""


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A request to change a resource and its links. new: it is created, under this number.

    versions: of which the record has to have one.
    """

    resource: Resource
    number: int
    change: Change
    versions: Versions = None
    new: bool = False


class UnitOfWork:
    """Makes changes one after another on records that it reads before, and writes what they became.

    It has to be in a transaction, so that what it has read is still true when it writes.
    """

    def __init__(
        self,
        database: AsyncIOMotorDatabase[dict[str, Any]],
        graph: Graph,
        session: AsyncIOMotorClientSession | None,
    ) -> None:
        self._database = database
        self._graph = graph
        self._session = session
        self._identity_maps = {resource.type: _IdentityMap(resource) for resource in graph.values()}

    async def make(self, asked: Sequence[LinkChange]) -> list[Record | Exception | None]:
        """Make the changes in their order; return the record of each, None if there is none.

        What is asked in vain changes nothing: it gets ApiErrors with a NotFound for each
        identifier of a linkage that is of no resource, PreconditionFailed, or IdTaken.
        """
        await self._read(asked)
        made = [self._outcome(one) for one in asked]
        await self._write()
        return made

    async def _read(self, asked: Sequence[LinkChange]) -> None:
        """Read the resources, those that are to be linked, and the members that may have to go."""
        wanted: dict[str, dict[str, set[int]]] = defaultdict(partial(defaultdict, set))
        for one in asked:
            wanted[one.resource.type]["_id"].add(one.number)
            for linkage in one.change.linkages:
                relationship = linkage.relationship
                wanted[relationship.target]["_id"].update(linkage.ids)
                if relationship.to_many and linkage.mode is Mode.REPLACE:
                    wanted[relationship.target][relationship.foreign_key].add(one.number)
        for type_name, values in wanted.items():
            conditions = [{column: {"$in": list(some)}} for column, some in values.items() if some]
            if conditions:
                resource = self._graph[type_name]
                cursor = self._database[resource.collection].find(
                    {"$or": conditions},
                    visible(resource),
                    batch_size=RECORDS_A_REPLY,
                    session=self._session,
                )
                self._identity_maps[type_name].put(await cursor.to_list(None))

    def _outcome(self, one: LinkChange) -> Record | Exception | None:
        shelf = self._identity_maps[one.resource.type]
        before = shelf.get(one.number)
        if one.new and before is not None:
            return IdTaken()
        if not one.new and before is None:
            return None
        if one.versions is not None and version_of(before or {}) not in one.versions:
            return PreconditionFailed()
        try:
            for linkage in one.change.linkages:
                self._check_targets(linkage)
        except ApiErrors as errors:
            return errors
        if before is None:
            shelf.add(new_record(one.resource, one.number, one.change))
        else:
            shelf.change(one.number, one.change.attributes | keys(one.change))
        for linkage in one.change.linkages:
            self._link(one, linkage, before or {})
        return shelf.get(one.number)

    def _check_targets(self, linkage: Linkage) -> None:
        """Raise ApiErrors if an identifier is of no resource."""
        if linkage.mode is Mode.REMOVE:
            return  # what is not there is not linked either
        problems, target = ErrorCollector(), linkage.relationship.target
        for identifier in linkage.identifiers:
            if identifier.id is None or self._identity_maps[target].get(identifier.id) is None:
                problems.add(NotFound.resource(target, identifier.text, identifier.pointer))
        problems.raise_any()

    def _link(self, one: LinkChange, linkage: Linkage, before: Record) -> None:
        relationship = linkage.relationship
        targets = self._identity_maps[relationship.target]
        if relationship.to_many:
            for number in targets.removed_members(one.number, linkage):
                targets.change(number, {relationship.foreign_key: None})
            for number, owner in targets.joining(one.number, linkage):
                targets.change(number, {relationship.foreign_key: one.number})
                self._identity_maps[one.resource.type].touch(owner)
        elif (was := key_of(before, relationship.foreign_key)) != linkage.linked_ids:
            targets.touch(was)
            targets.touch(next(iter(linkage.ids), None))

    async def _write(self) -> None:
        for name, shelf in self._identity_maps.items():
            if commands := list(shelf.commands()):
                records = self._database[self._graph[name].collection]
                await records.bulk_write(commands, session=self._session)


class _IdentityMap:
    """The records of one type: as they were read, as they become, and what that writes."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._records: dict[Hashable, Record] = {}
        self._members: dict[str, dict[int, set[Hashable]]] = {
            link.foreign_key: defaultdict(set) for link in resource.links
        }
        self._new: list[Record] = []
        self._changed: dict[Hashable, Record] = defaultdict(dict)
        self._touched: set[int] = set()

    def get(self, number: Hashable) -> Record | None:
        """Return the record as it is by now; it is not changed any more."""
        return self._records.get(number)

    def put(self, records: Sequence[Record]) -> None:
        """Take what was read; other tools may have stored ids that are documents."""
        for record in records:
            found = record["_id"]
            self._place(found if isinstance(found, Hashable) else repr(found), record)

    def add(self, record: Record) -> None:
        """Take a new record."""
        self._new.append(record)
        self._place(record["_id"], record)

    def change(self, number: Hashable, values: Record) -> None:
        """Set fields of a record, which gets its next version."""
        before = self._records[number]
        for column, members in self._members.items():
            if column in values and (key := key_of(before, column)) is not None:
                members[key].discard(number)
        changed = values | {VERSION: version_of(before) + 1}
        self._changed[number] |= changed
        self._place(number, before | changed)

    def touch(self, key: int | None) -> None:
        """Give what a key leads to its next version, be it here or not."""
        if key in self._records:
            self.change(key, {})
        elif key is not None:
            self._touched.add(key)

    def removed_members(self, number: int, linkage: Linkage) -> list[Hashable]:
        """Return the members of the resource with this number that are to go."""
        members = self._members[linkage.relationship.foreign_key][number]
        if linkage.mode is Mode.ADD:
            return []
        ids = set(linkage.ids)
        return list(members & ids if linkage.mode is Mode.REMOVE else members - ids)

    def joining(self, number: int, linkage: Linkage) -> list[tuple[int, int | None]]:
        """Return those that are to become members, each with the key that it has."""
        if linkage.mode is Mode.REMOVE:
            return []
        column = linkage.relationship.foreign_key
        found = [(one, key_of(self._records[one], column)) for one in linkage.ids]
        return [(one, key) for one, key in found if key != number]

    def commands(self) -> Iterator[_Command]:
        """Return what writes all that has become of the records."""
        yield from map(InsertOne, self._new)
        for number, values in self._changed.items():
            chosen = {"_id": self._records[number]["_id"]}
            yield UpdateOne(chosen, {"$set": values})
            if self._resource.computed and values.keys() & self._resource.writable:
                yield UpdateOne(chosen, joining(self._resource))
        if self._touched:
            yield UpdateMany({"_id": {"$in": list(self._touched)}}, [{"$set": NEXT_VERSION}])

    def _place(self, number: Hashable, record: Record) -> None:
        self._records[number] = record
        for column, members in self._members.items():
            if (key := key_of(record, column)) is not None:
                members[key].add(number)
