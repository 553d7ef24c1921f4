"""The format of stored records: drops the fields that earlier versions of the service have left."""

from registry.model.record import OBSOLETE_FIELDS
from registry.model.resource_type import ResourceType
from registry.storage.mongo.mongo_client import Database

_FORMAT = 2
"""That of the records without OBSOLETE_FIELDS."""

_BATCH_SIZE = 1_000
"""Records per update, which holds up requests that write the same records."""


class RecordFormat:
    """The format of the records of each type, which its counter tells once they all have it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def complete(self, resource: ResourceType) -> None:
        """Drop obsolete fields. It may be repeated, also after an interruption.

        Raises PyMongoError.
        """
        counters = self._database.counters
        if await counters.find_one({"_id": resource.type, "format": _FORMAT}) is None:
            await self._drop_obsolete_fields(resource)
            await counters.update_one({"_id": resource.type}, {"$set": {"format": _FORMAT}})

    async def _drop_obsolete_fields(self, resource: ResourceType) -> None:
        collection = self._database[resource.collection]
        query = {"$or": [{name: {"$exists": True}} for name in OBSOLETE_FIELDS]}
        cursor = collection.find(query, {"_id": True}, batch_size=_BATCH_SIZE)
        while records := await cursor.to_list(_BATCH_SIZE):
            ids = [record["_id"] for record in records]
            update = {"$unset": dict.fromkeys(OBSOLETE_FIELDS, True)}
            await collection.update_many({"_id": {"$in": ids}}, update)
