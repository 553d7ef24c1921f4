"""The writes on stored resources, each with all that follows from it for others."""

from __future__ import annotations

from typing import Any

from motor.motor_asyncio import (
    AsyncIOMotorClientSession,
    AsyncIOMotorCollection,
    AsyncIOMotorDatabase,
)
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from registry.jsonapi.errors import PreconditionFailed
from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Relationship, Resource
from registry.storage.projections import visible
from registry.storage.records import (
    NEXT_VERSION,
    Versions,
    changes,
    chosen,
    key_of,
    new_record,
)
from registry.storage.writes.unit_of_work import IdTaken, LinkChange, UnitOfWork


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
        if change.linkages:
            made = await self._link(LinkChange(resource, number, change, new=True))
            assert made is not None  # noqa: S101 - for mypy: what is new is there
            return made
        record = new_record(resource, number, change)
        try:
            await self._collection(resource).insert_one(record, session=self._session)
        except DuplicateKeyError as error:
            raise IdTaken from error
        return record

    async def update(
        self, resource: Resource, number: int, change: Change, versions: Versions = None
    ) -> Record | None:
        """Change a resource and its links and return its record, None if there is none.

        Raises ApiErrors as `insert` does, PreconditionFailed if it has none of the versions.
        """
        if change.linkages:
            return await self._link(LinkChange(resource, number, change, versions))
        record: Record | None = await self._collection(resource).find_one_and_update(
            chosen(number, versions),
            changes(resource, change),
            visible(resource),
            return_document=ReturnDocument.AFTER,
            session=self._session,
        )
        if record is None:
            await self._check_absence(resource, number, versions)
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
                await self._unlink(relationship, number)
            else:
                await self._touch(relationship.target, key_of(record, relationship.foreign_key))
        return record

    async def _check_absence(self, resource: Resource, number: int, versions: Versions) -> None:
        """Raise PreconditionFailed if the record is there, but in another version."""
        if versions is not None and await self._collection(resource).find_one(
            {"_id": number}, {"_id": True}, session=self._session
        ):
            raise PreconditionFailed

    async def _link(self, one: LinkChange) -> Record | None:
        (made,) = await UnitOfWork(self._database, self._graph, self._session).make([one])
        if isinstance(made, Exception):
            raise made
        return made

    async def _unlink(self, relationship: Relationship, number: int) -> None:
        await self._collection(self._graph[relationship.target]).update_many(
            {relationship.foreign_key: number},
            [{"$set": {relationship.foreign_key: None, **NEXT_VERSION}}],
            session=self._session,
        )

    async def _touch(self, type_name: str, key: int | None) -> None:
        if key is not None:
            await self._collection(self._graph[type_name]).update_one(
                {"_id": key}, [{"$set": NEXT_VERSION}], session=self._session
            )

    def _collection(self, resource: Resource) -> AsyncIOMotorCollection[Record]:
        return self._database[resource.collection]
