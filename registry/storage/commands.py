"""What requests in flight share, as commands that are nearly always answered in one reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase
from pymongo.errors import (
    ConnectionFailure,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from registry.model.record import Record
from registry.storage.records import Stage

_REFUSED = {"writeErrors", "writeConcernError"}
"""What is in the reply to a write if it was not done, or not by the majority."""


class Commands:
    """The commands of one database."""

    def __init__(self, database: AsyncIOMotorDatabase[dict[str, Any]]) -> None:
        self.database = database

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
        cursor = await self.database.cursor_command(
            {**query}, codec_options=self.database.codec_options
        )
        return [record async for record in cursor]

    async def change_all(
        self, collection: str, chosen: Mapping[str, Any], changes: Sequence[Stage]
    ) -> None:
        """Make one update of all records that fulfil the conditions.

        Raises PyMongoError; then it may have been made, once or twice, or of some of them.
        """
        update = {"q": chosen, "u": changes, "multi": True}
        concern = self.database.write_concern.document
        command = {"update": collection, "updates": [update], "writeConcern": concern}
        reply = await self._reply(command)
        if reply is None or not reply.keys().isdisjoint(_REFUSED):
            raise OperationFailure(f"the answer to a joint change was {reply}")

    async def _reply(self, command: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the first reply to a command that may be sent twice, None if it found no way.

        A connection may have been idle, and closed by now.
        """
        try:
            return await self.database.command(
                {**command}, codec_options=self.database.codec_options
            )
        except (ServerSelectionTimeoutError, NetworkTimeout):
            raise  # who has waited so long is not to wait again
        except ConnectionFailure:
            return None
