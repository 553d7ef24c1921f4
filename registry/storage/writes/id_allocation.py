"""Integer ids: they start at 1 and rise; a gap is allowed after a failure, a reuse never."""

from __future__ import annotations

from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase
from pymongo import ReturnDocument, WriteConcern

from registry.model.record import MAX_ID
from registry.model.resource import Resource


class Counters:
    """One counter a type, `{_id: "person", seq: last id given}`.

    To give ids waits for no other member of the replica set and for no journal: what is stored
    under the ids does, and it is stored after the counter on the same servers. So a counter that
    is lost takes along all that had its ids, before any of it was acknowledged.
    """

    def __init__(self, database: AsyncIOMotorDatabase[dict[str, Any]]) -> None:
        self._database = database
        self._counters = database.get_collection("counters", write_concern=WriteConcern(w=1))

    async def prepare(self, resource: Resource) -> None:
        """Make the counter, at no less than the greatest id in use."""
        # Other tools may have stored ids that are no numbers; those are not counted.
        newest = await self._database[resource.collection].find_one(
            {"_id": {"$lte": MAX_ID}}, {"_id": True}, sort=[("_id", -1)]
        )
        await self._database.counters.update_one(
            {"_id": resource.type}, {"$max": {"seq": newest["_id"] if newest else 0}}, upsert=True
        )

    async def reserve(self, resource: Resource, count: int) -> range:
        """Return ids that no resource of the type ever had, in one atomic step."""
        counter = await self._counters.find_one_and_update(
            {"_id": resource.type},
            {"$inc": {"seq": count}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        last: int = counter["seq"]
        return range(last - count + 1, last + 1)
