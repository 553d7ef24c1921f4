"""Whether the database is available: its primary replies in time."""

import asyncio

import pymongo
from pymongo.errors import PyMongoError

from registry.capacity import SHARING_CALLERS
from registry.storage.mongo.batching import Coalescer
from registry.storage.mongo.driver_metrics import observed
from registry.storage.mongo.mongo_client import Database

_SECONDS = 1.0


class Availability:
    """Asks the primary of a database; concurrent callers share the command."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pings = Coalescer[bool](name="pings", max_callers=SHARING_CALLERS)

    async def has_primary(self) -> bool:
        """Return whether a primary replies within a second."""
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._pings.load(None, self._ping)
        except TimeoutError:
            return False

    async def _ping(self) -> bool:
        try:
            with pymongo.timeout(_SECONDS):  # so that the thread does not wait for longer either
                hello = await observed("hello", self._database.command("hello"))
        except PyMongoError:
            return False
        return bool(hello["isWritablePrimary"])
