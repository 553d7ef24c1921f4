"""Allocation of integer ids: ascending from 1 and never reused; a failure may leave a gap."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pymongo import ReturnDocument, WriteConcern

from registry.model.graph import Graph
from registry.model.record import MAX_ID
from registry.model.resource import Resource
from registry.storage.client import Database
from registry.storage.errors import IdTaken, Unavailable, translated_errors

_Result = TypeVar("_Result")


class Counters:
    """One counter per type: `{_id: "person", seq: <last id allocated>}`.

    A counter is written with w:1: a rollback that reverts it also reverts the records with its ids,
    which are written later, on the same server.
    """

    def __init__(self, database: Database, graph: Graph) -> None:
        self._database = database
        self._graph = graph
        self._counters = database.get_collection("counters", write_concern=WriteConcern(w=1))

    async def prepare(self) -> None:
        """Create missing counters, and raise each to at least the greatest stored id.

        Raises PyMongoError.
        """
        for resource in self._graph.values():
            # External writers may have stored non-numeric ids; `$lte` skips those.
            newest = await self._database[resource.collection].find_one(
                {"_id": {"$lte": MAX_ID}}, {"_id": True}, sort=[("_id", -1)]
            )
            update = {"$max": {"seq": newest["_id"] if newest else 0}}
            await self._database.counters.update_one({"_id": resource.type}, update, upsert=True)

    async def allocate(self, resource: Resource, count: int) -> range:
        """Return ids that no resource of the type ever had, in one step. Raises Unavailable."""
        with translated_errors():
            counter = await self._counters.find_one_and_update(
                {"_id": resource.type},
                {"$inc": {"seq": count}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        last: int = counter["seq"]
        return range(last - count + 1, last + 1)

    async def retry_if_taken(self, write: Callable[[], Awaitable[_Result]]) -> _Result:
        """Return what `write` returns, which allocates ids; retry once above all stored ids.

        An external writer may have stored ids beyond the counter. Raises Unavailable.
        """
        try:
            return await write()
        except IdTaken:
            with translated_errors():
                await self.prepare()
        try:
            return await write()
        except IdTaken as error:
            raise Unavailable from error
