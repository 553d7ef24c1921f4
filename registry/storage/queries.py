"""Queries of which the answer nearly always fits in one reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase
from pymongo.errors import ConnectionFailure, NetworkTimeout, ServerSelectionTimeoutError

from registry.resource import Record
from registry.storage.wires import Wires


class Queries:
    """The queries of one database.

    wires: connections to its server; None if there can only be those of the driver.
    """

    def __init__(
        self, database: AsyncIOMotorDatabase[dict[str, Any]], wires: Wires | None = None
    ) -> None:
        self.database = database
        self._wires = wires

    async def find_all(
        self, collection: str, command: str, options: Mapping[str, Any]
    ) -> list[Record]:
        """Return all records that a command finds, `find` or `aggregate`. Raises PyMongoError.

        options: those of the command, with a batch size that has room for all. A cursor of the
        driver takes another change of threads, and a call of its own for each record.
        """
        concern = self.database.read_concern.document
        query = {command: collection, "readConcern": concern, **options}
        reply = await self._reply(query)
        if reply and not reply["cursor"]["id"]:
            found: list[Record] = reply["cursor"]["firstBatch"]
            return found
        if reply:  # which had no room for all of them
            cursors = [reply["cursor"]["id"]]
            await self.database.command({"killCursors": collection, "cursors": cursors})
        cursor = await self.database.cursor_command({**query})
        return [record async for record in cursor]

    async def _reply(self, query: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the first reply to a query, None if its connection broke.

        It may have been idle, and closed by now: all reads may be made once more.
        """
        reply = await self._wires.ask(self.database.name, query) if self._wires else None
        if reply:
            return reply
        try:
            return await self.database.command({**query})
        except (ServerSelectionTimeoutError, NetworkTimeout):
            raise  # who has waited so long is not to wait again
        except ConnectionFailure:
            return None
