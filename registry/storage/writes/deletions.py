"""Deletions of one resource, with the links to it."""

from __future__ import annotations

from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase

from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Relationship, Resource
from registry.storage.errors import VersionConflict
from registry.storage.projections import visible
from registry.storage.records import NEXT_VERSION, Stage, Versions, id_filter, key_of
from registry.storage.transactions import Session


class Deletion:
    """Deletes resources in one transaction. Its methods raise PyMongoError."""

    def __init__(
        self, database: AsyncIOMotorDatabase[dict[str, Any]], graph: Graph, session: Session
    ) -> None:
        self._collections = {one.type: database[one.collection] for one in graph.values()}
        self._session = session

    async def delete(
        self, resource: Resource, id_: int, versions: Versions = None
    ) -> Record | None:
        """Delete a resource and all links to it; return its last record, None if there is none.

        Related resources get their next version. Raises VersionConflict if the record has none of
        the versions.
        """
        collection = self._collections[resource.type]
        record: Record | None = await collection.find_one_and_delete(
            id_filter(id_, versions), visible(resource), session=self._session
        )
        if record is not None:
            for relationship in resource.relationships.values():
                await self._unlink(relationship, record)
        elif versions is not None and await collection.find_one(
            {"_id": id_}, {"_id": True}, session=self._session
        ):
            raise VersionConflict
        return record

    async def _unlink(self, relationship: Relationship, record: Record) -> None:
        targets, field = self._collections[relationship.target], relationship.foreign_key
        if relationship.to_many:
            query: Record = {field: record["_id"]}
            update: Stage = {field: None, **NEXT_VERSION}
        elif (target := key_of(record, field)) is not None:
            query, update = {"_id": target}, NEXT_VERSION
        else:
            return
        await targets.update_many(query, [{"$set": update}], session=self._session)
