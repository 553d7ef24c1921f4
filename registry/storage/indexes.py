"""Indexes: of each field that filters and sorts use, except the authorship, with the id."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pymongo
from pymongo import ASCENDING, IndexModel
from pymongo.errors import OperationFailure

from registry.model.graph import Graph
from registry.model.record import TEXT_BLOCK
from registry.model.resource import Resource
from registry.model.stored_fields import ID, UNINDEXED, stored_fields
from registry.storage.backlog import Backlog
from registry.storage.client import Database
from registry.storage.text_blocks import searched_names

_log = logging.getLogger("registry")

_BUILD_SECONDS = 86_400.0
"""The time limit of a build, instead of that of the connection."""

_PROGRESS_SECONDS = 5.0


class Indexes:
    """The indexes of all types. The methods raise PyMongoError."""

    def __init__(self, database: Database, graph: Graph, backlog: Backlog) -> None:
        self._database = database
        self._graph = graph
        self._backlog = backlog

    async def prepare(self, resource: Resource, *, is_small: bool) -> None:
        """Create the missing indexes of a small collection; leave others to `build`."""
        missing = await self._missing(resource)
        if missing and is_small:
            await self._database[resource.collection].create_indexes(_models(missing))
        elif missing:
            self._backlog.unindexed.add(resource.type)

    async def build(self) -> None:
        """Build the indexes that `prepare` has left, while reads and writes continue.

        Other processes that build the same ones wait for one build in MongoDB. The build is ended
        if the caller is cancelled.
        """
        for name in sorted(self._backlog.unindexed):
            resource = self._graph[name]
            progress = asyncio.create_task(self._log_progress(resource))
            try:
                await self._build(resource, await self._missing(resource))
            finally:
                progress.cancel()
            self._backlog.unindexed.discard(name)
            _log.info("The indexes of %s are complete", resource.collection)

    async def _missing(self, resource: Resource) -> list[str]:
        """Return the stored fields that have no index."""
        stored = {one.stored_name for one in stored_fields(resource).values()} - {ID} - UNINDEXED
        wanted = stored | ({TEXT_BLOCK} if searched_names(resource) else set())
        indexes = await self._database[resource.collection].index_information()
        existing = {index["key"][0][0] for index in indexes.values() if index["key"][1:] == _BY_ID}
        return sorted(wanted - existing)

    async def _build(self, resource: Resource, fields: list[str]) -> None:
        if not fields:  # another process has built them
            return
        client, collection = self._database.client, self._database[resource.collection]
        _log.info("Building indexes of %s: %s", resource.collection, ", ".join(fields))
        async with await client.start_session(causal_consistency=False) as session:
            try:
                with pymongo.timeout(_BUILD_SECONDS):
                    await collection.create_indexes(_models(fields), session=session)
            except asyncio.CancelledError:
                # Otherwise a thread would wait for the build, and delay the end of the process.
                await client.admin.command({"killSessions": [session.session_id]})
                raise

    async def _log_progress(self, resource: Resource) -> None:
        name = f"{self._database.name}.{resource.collection}"
        stages: list[dict[str, Any]] = [
            {"$currentOp": {"allUsers": True}},
            {"$match": {"ns": name, "progress.total": {"$gt": 0}}},
        ]
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            with suppress(OperationFailure):  # the user may lack the privilege `inprog`
                for each in await self._database.client.admin.aggregate(stages).to_list(None):
                    text, progress = each["msg"].partition(": ")[2], each["progress"]
                    text = text.partition(" Index Build")[0]
                    share = 100 * progress["done"] // progress["total"]
                    _log.info("Building indexes of %s: %s, %d %%", resource.collection, text, share)


_BY_ID = [(ID, ASCENDING)]


def _models(fields: list[str]) -> list[IndexModel]:
    return [IndexModel([(field, ASCENDING), *_BY_ID]) for field in fields]
