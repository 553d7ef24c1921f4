"""Maintenance: creates what makes queries fast, in the background if that takes long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from pymongo.errors import ConnectionFailure

from registry.jsonapi.error_objects import RequestError
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.storage.errors import translated_errors
from registry.storage.indexes import build_indexes
from registry.storage.mongo.mongo_client import Database

_log = logging.getLogger("registry")

_MAX_SMALL_RECORDS = 10_000
"""Records of a collection that is completed before the service starts, in less than a second."""

_RETRY_SECONDS = 30.0
"""The pause after an error; the data are complete but slower to query."""


class Maintenance:
    """Builds missing indexes. unindexed: gets the types whose indexes are not complete."""

    def __init__(
        self,
        database: Database,
        graph: Graph,
        unindexed: set[str],
    ) -> None:
        self._database = database
        self._graph = graph
        self._unindexed = unindexed
        self._large: list[ResourceType] = []
        self._task: asyncio.Task[None] | None = None
        self._has_caught_up = asyncio.Event()

    async def prepare(self) -> None:
        """Complete small collections, and begin in the background. Raises PyMongoError."""
        for resource in self._graph.values():
            count = await self._database[resource.collection].estimated_document_count()
            if count <= _MAX_SMALL_RECORDS:
                await build_indexes(self._database, resource)
            else:
                self._large.append(resource)
                self._unindexed.add(resource.type)
        self._task = asyncio.create_task(self._run())

    async def catch_up(self) -> None:
        """Wait until what `prepare` has left for the background is complete."""
        await self._has_caught_up.wait()

    async def close(self) -> None:
        """End the work in the background; the next start continues it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _build_indexes(self, resource: ResourceType) -> None:
        _log.info("Checking the indexes of %s, building missing ones", resource.collection)
        await build_indexes(self._database, resource)
        self._unindexed.discard(resource.type)
        _log.info("The indexes of %s are complete", resource.collection)

    async def _run(self) -> None:
        # At once: complete ones do not wait for others to be built.
        async with asyncio.TaskGroup() as builds:
            for resource in self._large:
                builds.create_task(self._retry(partial(self._build_indexes, resource)))
        self._has_caught_up.set()

    async def _retry(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work; log errors, and repeat it after each."""
        while True:
            try:
                with translated_errors():
                    return await work()
            except Exception as error:  # noqa: BLE001 - other work continues in spite of a defect
                if not isinstance(error.__cause__, ConnectionFailure):  # then all queries wait
                    text = "Queries stay slower until this succeeds, again in %g s"
                    is_defect = not isinstance(error, RequestError)
                    _log.error(text, _RETRY_SECONDS, exc_info=error if is_defect else None)
                await asyncio.sleep(_RETRY_SECONDS)
