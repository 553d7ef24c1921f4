"""Indexes: one of each field that filters and sorts use, except the authorship, and of the id."""

import logging

from pymongo import ASCENDING, IndexModel

from registry.model.graph import Graph
from registry.model.record import TEXT_BLOCK
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID, UNINDEXED, stored_fields
from registry.storage.backlog import Backlog
from registry.storage.mongo.mongo_client import Database
from registry.storage.schema.index_builds import build, complete_indexes
from registry.storage.text_blocks import searched_names

_log = logging.getLogger("registry")


class Indexes:
    """The indexes of all types. The methods raise PyMongoError."""

    def __init__(self, database: Database, graph: Graph, backlog: Backlog) -> None:
        self._database = database
        self._graph = graph
        self._backlog = backlog

    async def prepare(self, resource: ResourceType, *, is_small: bool) -> None:
        """Create the missing indexes of a small collection; leave others to `build`."""
        missing = await self._missing(resource)
        if missing and is_small:
            await self._database[resource.collection].create_indexes(_models(missing))
        elif missing:
            self._backlog.unindexed.add(resource.type)

    async def build(self) -> None:
        """Build what `prepare` has left, until no index is missing; otherwise as `build` does."""
        for name in sorted(self._backlog.unindexed):
            resource = self._graph[name]
            while missing := await self._missing(resource):  # else another process has built them
                _log.info("Building indexes of %s: %s", resource.collection, ", ".join(missing))
                await build(self._database, resource.collection, _models(missing))
            self._backlog.unindexed.discard(name)
            _log.info("The indexes of %s are complete", resource.collection)

    async def _missing(self, resource: ResourceType) -> list[str]:
        """Return the stored fields that have no complete index."""
        stored = {one.stored_name for one in stored_fields(resource).values()} - {ID} - UNINDEXED
        wanted = stored | ({TEXT_BLOCK} if searched_names(resource) else set())
        indexes = await complete_indexes(self._database, resource.collection)
        existing = {index["key"][0][0] for index in indexes.values() if index["key"][1:] == _BY_ID}
        return sorted(wanted - existing)


_BY_ID = [(ID, ASCENDING)]


def _models(fields: list[str]) -> list[IndexModel]:
    return [IndexModel([(field, ASCENDING), *_BY_ID]) for field in fields]
