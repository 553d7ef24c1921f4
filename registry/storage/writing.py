"""The writes on stored resources, each with all that follows from it for others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from motor.motor_asyncio import (
    AsyncIOMotorClientSession,
    AsyncIOMotorCollection,
    AsyncIOMotorDatabase,
)
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from registry.jsonapi.errors import NotFound, PreconditionFailed, Problems
from registry.jsonapi.payload import Change, Linkage, Mode
from registry.resource import Graph, Record, Relationship, Resource
from registry.storage.records import (
    NEXT_VERSION,
    Stage,
    Versions,
    changes,
    chosen,
    keys,
    new_record,
    visible,
)


class IdTaken(Exception):
    """Another tool has stored a record under an id that was to be given."""


class Writer:
    """The writes of one transaction, or of none where a write concerns one document.

    A resource counts as changed, and gets a new version, when its relationships change, on
    whichever side they are stored: so of a request that links to a resource and one that deletes
    it at the same time, one comes first.
    """

    def __init__(
        self,
        database: AsyncIOMotorDatabase[dict[str, Any]],
        graph: Graph,
        session: AsyncIOMotorClientSession | None = None,
    ) -> None:
        self._database = database
        self._graph = graph
        self._session = session

    async def insert(self, resource: Resource, number: int, change: Change) -> Record:
        """Store a new resource with its links and return its record.

        Raises ApiErrors with a NotFound for each linkage to a resource that does not exist, and
        IdTaken if the number is the id of one that does.
        """
        record = new_record(resource, number, change)
        try:
            await self._collection(resource).insert_one(record, session=self._session)
        except DuplicateKeyError as error:
            raise IdTaken from error
        await self._link(resource, number, change, {})
        return record

    async def update(
        self, resource: Resource, number: int, change: Change, versions: Versions = None
    ) -> Record | None:
        """Change a resource and its links and return its record, None if there is none.

        Raises ApiErrors as `insert` does, PreconditionFailed if it has none of the versions.
        """
        before = await self._keys(resource, number, change)
        record: Record | None = await self._collection(resource).find_one_and_update(
            chosen(number, versions),
            changes(resource, change),
            visible(resource),
            return_document=ReturnDocument.AFTER,
            session=self._session,
        )
        if record is None:
            await self._check_absence(resource, number, versions)
            return None
        await self._link(resource, number, change, before)
        return record

    async def delete(
        self, resource: Resource, number: int, versions: Versions = None
    ) -> Record | None:
        """Delete a resource and all links to it and return its last record, None if there is none.

        Raises PreconditionFailed if it has none of the versions.
        """
        record: Record | None = await self._collection(resource).find_one_and_delete(
            chosen(number, versions), visible(resource), session=self._session
        )
        if record is None:
            await self._check_absence(resource, number, versions)
            return None
        for relationship in resource.relationships.values():
            if relationship.to_many:
                await self._assign(relationship, {relationship.column: number}, None)
            else:
                await self._touch(relationship.target, [record.get(relationship.column)])
        return record

    async def _check_absence(self, resource: Resource, number: int, versions: Versions) -> None:
        """Raise PreconditionFailed if the record is there, but in another version."""
        if versions is not None and await self._existing(resource, [number]):
            raise PreconditionFailed

    async def _keys(self, resource: Resource, number: int, change: Change) -> Record:
        """Return the keys of the links that the change will set, as they are before it."""
        columns = keys(change)
        if not columns:
            return {}
        found = await self._collection(resource).find_one(
            {"_id": number}, dict.fromkeys(columns, True), session=self._session
        )
        return found or {}

    async def _link(
        self, resource: Resource, number: int, change: Change, before: Mapping[str, Any]
    ) -> None:
        for linkage in change.linkages:
            if linkage.mode is not Mode.REMOVE:  # what is not there is not linked either
                await self._check_targets(linkage)
            if linkage.relationship.to_many:
                await self._set_members(resource, number, linkage)
            else:
                was, becomes = before.get(linkage.relationship.column), linkage.linked
                changed = [] if was == becomes else [was, becomes]
                await self._touch(linkage.relationship.target, changed)

    async def _check_targets(self, linkage: Linkage) -> None:
        """Raise ApiErrors if an identifier is of no resource."""
        problems, target = Problems(), self._graph[linkage.relationship.target]
        existing = await self._existing(target, linkage.ids)
        for identifier in linkage.identifiers:
            if identifier.id not in existing:
                problems.add(NotFound.resource(target.type, identifier.sent, identifier.pointer))
        problems.raise_any()

    async def _existing(self, resource: Resource, numbers: Collection[int]) -> set[int]:
        if not numbers:
            return set()
        cursor = self._collection(resource).find(
            {"_id": {"$in": list(numbers)}}, {"_id": True}, session=self._session
        )
        return {record["_id"] for record in await cursor.to_list(None)}

    async def _set_members(self, resource: Resource, number: int, linkage: Linkage) -> None:
        column, ids = linkage.relationship.column, linkage.ids
        leaving = {"$in" if linkage.mode is Mode.REMOVE else "$nin": ids}
        if linkage.mode is not Mode.ADD:
            await self._assign(linkage.relationship, {column: number, "_id": leaving}, None)
        if linkage.mode is not Mode.REMOVE:
            joining = {column: {"$ne": number}, "_id": {"$in": ids}}
            owners = await self._owners(linkage.relationship, joining)
            await self._assign(linkage.relationship, joining, number)
            await self._touch(resource.type, owners)

    async def _owners(self, relationship: Relationship, condition: dict[str, Any]) -> list[Any]:
        """Return what the resources are linked to, each once."""
        # In a transaction, `distinct` would not work on a collection that is sharded.
        stages: list[Stage] = [
            {"$match": condition},
            {"$group": {"_id": f"${relationship.column}"}},
        ]
        cursor = self._targets(relationship).aggregate(stages, session=self._session)
        return [group["_id"] for group in await cursor.to_list(None)]

    async def _assign(
        self, relationship: Relationship, condition: dict[str, Any], key: int | None
    ) -> None:
        await self._targets(relationship).update_many(
            condition, [{"$set": {relationship.column: key, **NEXT_VERSION}}], session=self._session
        )

    async def _touch(self, type_name: str, numbers: Sequence[Any]) -> None:
        """Give the resources a new version; what other tools have stored may be no number."""
        if present := [number for number in numbers if isinstance(number, int | float)]:
            await self._collection(self._graph[type_name]).update_many(
                {"_id": {"$in": present}}, [{"$set": NEXT_VERSION}], session=self._session
            )

    def _targets(self, relationship: Relationship) -> AsyncIOMotorCollection[Record]:
        return self._collection(self._graph[relationship.target])

    def _collection(self, resource: Resource) -> AsyncIOMotorCollection[Record]:
        return self._database[resource.collection]
