"""Writes that change attributes alone: concurrent requests share a round trip."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorDatabase
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    NetworkTimeout,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.errors import (
    IdTaken,
    StorageError,
    Unavailable,
    VersionConflict,
    translated_errors,
)
from registry.storage.projections import visible
from registry.storage.reads.commands import find_all
from registry.storage.records import (
    Versions,
    batch_update,
    id_filter,
    new_record,
    update_pipeline,
)
from registry.storage.writes.id_allocation import Counters

_DUPLICATE_KEY = 11000

_log = logging.getLogger("registry")

_Update: TypeAlias = "tuple[int, Change]"

_MAX_BATCH_SIZE = 256
"""Resources per batch."""

_MAX_IN_FLIGHT = 2
"""While the service builds the records of one batch, the database writes the other."""


class AttributeWrites:
    """Creates and updates resources whose links stay as they are. Raises Unavailable."""

    def __init__(
        self, database: AsyncIOMotorDatabase[dict[str, Any]], graph: Graph, counters: Counters
    ) -> None:
        self._collections = {one.type: database[one.collection] for one in graph.values()}
        self._counters = counters
        self._inserts: dict[str, Batcher[Change, Record]] = {}
        self._updates: dict[str, Batcher[_Update, Record | None]] = {}
        for resource in graph.values():
            insert, update = partial(self._insert, resource), partial(self._update, resource)
            self._inserts[resource.type] = Batcher(
                insert, max_batch_size=_MAX_BATCH_SIZE, max_in_flight=_MAX_IN_FLIGHT
            )
            self._updates[resource.type] = Batcher(
                update, max_batch_size=_MAX_BATCH_SIZE, max_in_flight=_MAX_IN_FLIGHT
            )

    async def insert(self, resource: Resource, change: Change) -> Record:
        """Store a new resource and return its record. Raises IdTaken."""
        return await self._inserts[resource.type].load(change)

    async def update(
        self, resource: Resource, id_: int, change: Change, versions: Versions = None
    ) -> Record | None:
        """Update a resource and return its record, None if there is none.

        Raises VersionConflict if the record has none of the versions.
        """
        if versions is None:
            return await self._updates[resource.type].load((id_, change))
        with translated_errors():
            record = await self._update_one(resource, id_, change, versions)
            if record is None and await self._collections[resource.type].find_one(
                {"_id": id_}, {"_id": True}
            ):
                raise VersionConflict
        return record

    async def _update_one(
        self, resource: Resource, id_: int, change: Change, versions: Versions = None
    ) -> Record | None:
        return await self._collections[resource.type].find_one_and_update(
            id_filter(id_, versions),
            update_pipeline(resource, change),
            visible(resource),
            return_document=ReturnDocument.AFTER,
        )

    async def _insert(
        self, resource: Resource, changes: Sequence[Change]
    ) -> Sequence[Record | Exception]:
        ids = await self._counters.allocate(resource, len(changes))
        records = [new_record(resource, *one) for one in zip(ids, changes, strict=True)]
        with translated_errors():
            try:
                refusals = await self._insert_all(resource, records)
            except ConnectionFailure:
                # Some may be stored, under ids that no other request has.
                cursor = self._collections[resource.type].find(
                    {"_id": {"$in": list(ids)}}, {"_id": True}
                )
                stored = {record["_id"] for record in await cursor.to_list(None)}
                missing = [record for record in records if record["_id"] not in stored]
                refusals = await self._insert_all(resource, missing)
                # An id that is taken by now shows that the first attempt was applied after all.
                refusals = {
                    id_: error for id_, error in refusals.items() if not isinstance(error, IdTaken)
                }
        return [refusals.get(record["_id"], record) for record in records]

    async def _insert_all(
        self, resource: Resource, records: list[Record]
    ) -> dict[int, StorageError]:
        """Insert records; return the error of each that is refused, by id."""
        if not records:
            return {}
        try:
            await self._collections[resource.type].insert_many(records, ordered=False)
        except BulkWriteError as error:
            return {records[index]["_id"]: one for index, one in _refusals(error).items()}
        return {}

    async def _update(
        self, resource: Resource, updates: Sequence[_Update]
    ) -> Sequence[Record | Exception | None]:
        """Update in rounds, each with at most one update per resource.

        So each caller gets the record as its own update left it.
        """
        results: dict[int, Record | Exception | None] = {}
        while remaining := [index for index in range(len(updates)) if index not in results]:
            first_by_id = {updates[index][0]: index for index in reversed(remaining)}
            indexes = sorted(first_by_id.values())
            records = await self._update_distinct(resource, [updates[index] for index in indexes])
            results.update(zip(indexes, records, strict=True))
        return [results[index] for index in range(len(updates))]

    async def _update_distinct(
        self, resource: Resource, updates: Sequence[_Update]
    ) -> list[Record | Exception | None]:
        """Update resources that are all different."""
        query = {"_id": {"$in": [id_ for id_, _ in updates]}}
        with translated_errors():
            if len(updates) == 1:
                return [await self._update_one(resource, *updates[0])]
            refusals = await self._update_all(resource, query, updates)
            found = await find_all(self._collections[resource.type], query, visible(resource))
            records = {record["_id"]: record for record in found}
        return [refusals.get(index, records.get(id_)) for index, (id_, _) in enumerate(updates)]

    async def _update_all(
        self, resource: Resource, query: dict[str, Any], updates: Sequence[_Update]
    ) -> dict[int, StorageError]:
        """Update records; return the error of each update that is refused, by index."""
        collection = self._collections[resource.type]
        try:
            # Takes MongoDB half as long as one update per record, each logged for a retry.
            await collection.update_many(query, batch_update(resource, updates))
        except (NetworkTimeout, ServerSelectionTimeoutError):
            raise  # Already timed out: do not retry.
        except PyMongoError as error:
            # How many were updated is unknown; another update differs only in the version.
            _log.info("Batched update failed; updating one by one: %s", error)
            operations = [
                UpdateOne({"_id": id_}, update_pipeline(resource, change))
                for id_, change in updates
            ]
            try:
                await collection.bulk_write(operations, ordered=False)
            except BulkWriteError as bulk_error:
                return _refusals(bulk_error)
        return {}


def _refusals(error: BulkWriteError) -> dict[int, StorageError]:
    """Return the error of each refused write, by index. Raises the given one if it affects all."""
    write_errors = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or not write_errors:
        raise error
    return {
        one["index"]: IdTaken() if one["code"] == _DUPLICATE_KEY else Unavailable()
        for one in write_errors
    }
