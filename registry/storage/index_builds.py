"""Index builds: of small collections before the service is ready, of others while it serves."""

import asyncio
import logging

from pymongo.errors import ConnectionFailure

from registry.capacity import Capacity
from registry.jsonapi.error_objects import RequestError
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.storage.errors import translated_errors
from registry.storage.indexes import build_indexes
from registry.storage.mongo.mongo_client import Database

_log = logging.getLogger("registry")


class IndexBuilds:
    """Builds missing indexes. unindexed: gets the types whose indexes are not complete yet."""

    def __init__(
        self, database: Database, graph: Graph, capacity: Capacity, unindexed: set[str]
    ) -> None:
        self._database = database
        self._capacity = capacity
        self._graph = graph
        self._unindexed = unindexed
        self._task: asyncio.Task[None] | None = None
        self._are_complete = asyncio.Event()

    async def prepare(self) -> None:
        """Build the indexes of small collections, begin with the others. Raises PyMongoError."""
        large: list[ResourceType] = []
        for resource in self._graph.values():
            count = await self._database[resource.collection].estimated_document_count()
            if count <= self._capacity.small_collection:
                await build_indexes(self._database, resource)
            else:
                large.append(resource)
                self._unindexed.add(resource.type)
        self._task = asyncio.create_task(self._build_all(large))

    async def catch_up(self) -> None:
        """Wait until the indexes of all collections are complete."""
        await self._are_complete.wait()

    async def close(self) -> None:
        """End the builds; the next start begins them again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _build_all(self, resources: list[ResourceType]) -> None:
        # At once: complete ones do not wait for others to be built.
        async with asyncio.TaskGroup() as builds:
            for resource in resources:
                builds.create_task(self._build(resource))
        self._are_complete.set()

    async def _build(self, resource: ResourceType) -> None:
        """Build the missing indexes of a type; log errors, and try again after each."""
        pause = self._capacity.index_retry_seconds
        while True:
            _log.info("Checking the indexes of %s, building missing ones", resource.collection)
            try:
                with translated_errors():
                    await build_indexes(self._database, resource)
            except Exception as error:  # noqa: BLE001 - other builds continue in spite of a defect
                if not isinstance(error.__cause__, ConnectionFailure):  # then all queries wait
                    text = "Queries stay slower until this succeeds, again in %g s"
                    is_defect = not isinstance(error, RequestError)
                    _log.error(text, pause, exc_info=error if is_defect else None)
                await asyncio.sleep(pause)
            else:
                self._unindexed.discard(resource.type)
                _log.info("The indexes of %s are complete", resource.collection)
                return
