"""Indexes: one of each indexed field that filters and sorts use, and the id."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pymongo
from motor.motor_asyncio import AsyncIOMotorCollection
from pymongo import ASCENDING, IndexModel
from pymongo.errors import OperationFailure

from registry.model.graph import Graph
from registry.model.record import ID, TEXT_BLOCK, Record
from registry.model.resource_type import ResourceType
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.text_blocks import searched_names

_log = logging.getLogger("registry")

BUILD_SECONDS = 86_400.0
"""The time limit of a build, instead of that of the connection."""

_INDEX_NOT_FOUND = 27

_BY_ID = [(ID, ASCENDING)]


class Indexes:
    """The indexes of all types. The methods raise PyMongoError.

    unindexed: the types whose indexes are not complete, as far as this process knows.
    """

    def __init__(self, database: Database, graph: Graph, unindexed: set[str]) -> None:
        self._database = database
        self._graph = graph
        self._unindexed = unindexed

    async def prepare(self, resource: ResourceType, *, is_small: bool) -> None:
        """Create the missing indexes of a small collection; leave others to `build`."""
        missing = await self._missing(resource)
        if missing and is_small:
            await self._database[resource.collection].create_indexes(_models(missing))
        elif missing:
            self._unindexed.add(resource.type)

    async def build(self) -> None:
        """Build the indexes that `prepare` has left, unless another process builds them first."""
        for name in sorted(self._unindexed):
            resource = self._graph[name]
            while missing := await self._missing(resource):  # else another process has built them
                _log.info("Building indexes of %s: %s", resource.collection, ", ".join(missing))
                await build_indexes(self._database, resource.collection, _models(missing))
            self._unindexed.discard(name)
            _log.info("The indexes of %s are complete", resource.collection)

    async def _missing(self, resource: ResourceType) -> list[str]:
        """Return the stored fields that have no complete index."""
        wanted = resource.indexed_fields - {ID} | (
            {TEXT_BLOCK} if searched_names(resource) else set()
        )
        indexes = await complete_indexes(self._database, resource.collection)
        existing = {index["key"][0][0] for index in indexes.values() if index["key"][1:] == _BY_ID}
        return sorted(wanted - existing)


def _models(fields: list[str]) -> list[IndexModel]:
    return [IndexModel([(field, ASCENDING), *_BY_ID]) for field in fields]


async def complete_indexes(database: Database, collection: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the indexes of a collection by name, without those that are still being built.

    Raises PyMongoError.
    """
    # MongoDB lists the others as well, and removes them if their build is aborted.
    listed: Mapping[str, Mapping[str, Any]] = await database[collection].index_information()
    if not listed:  # a collection that does not exist has no statistics
        return {}
    stages: list[dict[str, Any]] = [{"$collStats": {"storageStats": {}}}]
    shards = [one["storageStats"] async for one in database[collection].aggregate(stages)]
    existing = {name for shard in shards for name in shard["indexSizes"]}
    complete = existing.difference(*(shard["indexBuilds"] for shard in shards))
    return {name: index for name, index in listed.items() if name in complete}


async def drop_index(collection: AsyncIOMotorCollection[Record], name: str) -> bool:
    """Drop an index, unless another process has; return whether it was there.

    Raises PyMongoError.
    """
    try:
        await collection.drop_index(name)
    except OperationFailure as error:
        if error.code != _INDEX_NOT_FOUND:
            raise
        return False
    return True


async def build_indexes(database: Database, collection: str, indexes: Sequence[IndexModel]) -> None:
    """Build indexes of a collection; MongoDB logs the progress.

    Other processes that build the same ones wait for one build in MongoDB, and begin another if it
    is aborted. The build is ended if the caller is cancelled. Raises PyMongoError;
    DuplicateKeyError if an index is unique, but what is stored is not.
    """
    # Otherwise a thread would wait for the build, and delay the end of the process.
    commands = ReadCommands(database)
    async with commands.cancellable_session() as session:
        with pymongo.timeout(BUILD_SECONDS):
            await database[collection].create_indexes(indexes, session=session)
    await commands.close()
