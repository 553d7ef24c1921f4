"""The verbs on stored resources: get, find, insert, update, link."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import suppress
from operator import itemgetter
from typing import Any, TypeAlias

from motor.motor_asyncio import (
    AsyncIOMotorClientSession,
    AsyncIOMotorCollection,
    AsyncIOMotorDatabase,
)
from pymongo import ReturnDocument
from pymongo.errors import OperationFailure

from registry.jsonapi.errors import NotFound, Problems, Unavailable
from registry.jsonapi.payload import Change
from registry.resource import VERSION, Graph, Linked, Record, Resource
from registry.storage.client import answering_unavailable
from registry.storage.counters import Counters

_Write: TypeAlias = Callable[[AsyncIOMotorClientSession | None], Awaitable[Record | None]]

CHUNK = 1_000
"""Records a streamed collection holds at a time."""

_PATIENCE_SECONDS = 10.0
"""How long a transaction is begun anew when others write the same documents."""

_IDS_A_QUERY = 100_000
"""A query document is limited to 16 MiB; an id takes up to 16 bytes of it."""


class _LostRace(Exception):
    """Another transaction wrote the same documents first."""


class Repository:
    """The resources of one database. Its methods raise Unavailable if that does not answer."""

    def __init__(self, database: AsyncIOMotorDatabase[dict[str, Any]], graph: Graph) -> None:
        self._database = database
        self._graph = graph
        self._counters = Counters(database)
        self._turn = asyncio.Lock()

    async def prepare(self) -> None:
        """Create what is missing, indexes and counters; before anything else is asked for."""
        for resource in self._graph.values():
            for link in resource.links:
                await self._collection(resource).create_index(link.column)
            await self._counters.prepare(resource)

    async def get(self, resource: Resource, number: int) -> Record | None:
        """Return the record with this id."""
        with answering_unavailable():
            return await self._collection(resource).find_one(
                {"_id": number}, self._visible(resource)
            )

    async def find(self, resource: Resource, field: str, values: Collection[int]) -> list[Record]:
        """Return the records in which the field has one of the values, by rising id."""
        wanted = list(values)
        found: list[Record] = []
        for start in range(0, len(wanted), _IDS_A_QUERY):
            batch = {field: {"$in": wanted[start : start + _IDS_A_QUERY]}}
            with answering_unavailable():
                cursor = self._collection(resource).find(batch, self._visible(resource))
                found += await cursor.to_list(None)
        return sorted(found, key=itemgetter("_id"))

    async def chunks(self, resource: Resource) -> AsyncGenerator[list[Record]]:
        """Yield all records by rising id, CHUNK at a time."""
        cursor = (
            self._collection(resource)
            .find({}, self._visible(resource), batch_size=CHUNK)
            .sort("_id")
        )
        try:
            while True:
                with answering_unavailable():
                    records = await cursor.to_list(CHUNK)
                if not records:
                    return
                yield records
        finally:
            await cursor.close()

    async def insert(self, resource: Resource, change: Change) -> Record:
        """Store a new resource with its links and return its record.

        Raises ApiErrors with a NotFound for each linkage to a resource that does not exist; then
        nothing is stored.
        """
        with answering_unavailable():
            number = await self._counters.next(resource)
        record = {
            "_id": number,
            **resource.hidden,
            **{link.column: None for link in resource.links},
            **change.attributes,
            **_columns(change),
            VERSION: 1,
        }

        async def write_record(session: AsyncIOMotorClientSession | None) -> Record:
            await self._collection(resource).insert_one(record, session=session)
            return record

        await self._write(number, change, write_record)
        return record

    async def update(self, resource: Resource, number: int, change: Change) -> Record | None:
        """Change a resource and its links and return its record, None if there is none.

        A to-many linkage replaces all of the relationship; what was linked to another resource
        moves. Raises ApiErrors as `insert` does; then nothing is changed.
        """
        values = change.attributes | _columns(change)
        changes: dict[str, Any] = {"$inc": {VERSION: 1}} | ({"$set": values} if values else {})

        async def write_record(session: AsyncIOMotorClientSession | None) -> Record | None:
            return await self._collection(resource).find_one_and_update(
                {"_id": number},
                changes,
                self._visible(resource),
                return_document=ReturnDocument.AFTER,
                session=session,
            )

        return await self._write(number, change, write_record)

    async def _write(self, number: int, change: Change, write_record: _Write) -> Record | None:
        """Write a record and then its links, in one transaction where there are links."""

        async def write_all(session: AsyncIOMotorClientSession | None) -> Record | None:
            record = await write_record(session)
            if record is not None:
                await self._check_targets(change, session)
                await self._link(number, change, session)
            return record

        with answering_unavailable():
            if not change.linkages:
                return await write_record(None)
            return await self._transaction(write_all)

    async def _transaction(self, write: _Write) -> Record | None:
        """Write in a transaction, and anew when another one was first at the same documents.

        The driver's own repetition goes on for two minutes, even without a database.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with suppress(_LostRace):
            return await self._attempt(write)
        # Those who lost take turns, or they would make each other lose again.
        async with self._turn:
            while time.monotonic() < deadline:
                with suppress(_LostRace):
                    return await self._attempt(write)
        raise Unavailable

    async def _attempt(self, write: _Write) -> Record | None:
        client = self._database.client
        try:
            async with await client.start_session() as session, session.start_transaction():
                return await write(session)
        except OperationFailure as error:
            if error.has_error_label("TransientTransactionError"):
                raise _LostRace from error
            raise

    async def _check_targets(
        self, change: Change, session: AsyncIOMotorClientSession | None
    ) -> None:
        """Raise ApiErrors if an identifier is of no resource."""
        problems = Problems()
        for linkage in change.linkages:
            target = self._graph[linkage.relationship.target]
            cursor = self._collection(target).find(
                {"_id": {"$in": linkage.ids}}, {"_id": True}, session=session
            )
            existing = {record["_id"] for record in await cursor.to_list(None)}
            for identifier in linkage.identifiers:
                if identifier.id not in existing:
                    problems.add(
                        NotFound.resource(target.type, identifier.sent, identifier.pointer)
                    )
        problems.raise_any()

    async def _link(
        self, number: int, change: Change, session: AsyncIOMotorClientSession | None
    ) -> None:
        """Make the targets of each to-many relationship exactly those of the change."""
        for linkage in change.linkages:
            column, ids = linkage.relationship.column, linkage.ids
            if linkage.relationship.to_many:
                targets = self._collection(self._graph[linkage.relationship.target])
                for changing, owner in (
                    ({column: number, "_id": {"$nin": ids}}, None),
                    ({column: {"$ne": number}, "_id": {"$in": ids}}, number),
                ):
                    await targets.update_many(
                        changing, {"$set": {column: owner}, "$inc": {VERSION: 1}}, session=session
                    )

    def _collection(self, resource: Resource) -> AsyncIOMotorCollection[Record]:
        return self._database[resource.collection]

    @staticmethod
    def _visible(resource: Resource) -> dict[str, bool] | None:
        # Hidden fields never leave the database.
        return dict.fromkeys(resource.hidden, False) or None


def _columns(change: Change) -> dict[str, Linked]:
    """Return the keys that the to-one linkages set on the record itself."""
    return {
        linkage.relationship.column: linkage.linked
        for linkage in change.linkages
        if not linkage.relationship.to_many
    }
