"""Queries of which the answer nearly always fits in one reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motor.motor_asyncio import AsyncIOMotorCollection
from pymongo.errors import ConnectionFailure, ServerSelectionTimeoutError

from registry.resource import Record


async def find_all(
    collection: AsyncIOMotorCollection[Record], command: str, options: Mapping[str, Any]
) -> list[Record]:
    """Return all records that a command finds, `find` or `aggregate`. Raises PyMongoError.

    options: those of the command, with a batch size that has room for all. A cursor of the driver
    takes another change of threads, and a call of its own for each record.
    """
    database, concern = collection.database, collection.read_concern.document
    query = {command: collection.name, "readConcern": concern, **options}
    try:
        reply = await database.command({**query})
    except ServerSelectionTimeoutError:
        raise
    except ConnectionFailure:
        # A connection that was idle may be closed by now: once more, as drivers do with all reads.
        reply = None
    if reply and not reply["cursor"]["id"]:
        found: list[Record] = reply["cursor"]["firstBatch"]
        return found
    if reply:  # which had no room for all of them
        cursors = [reply["cursor"]["id"]]
        await database.command({"killCursors": collection.name, "cursors": cursors})
    cursor = await database.cursor_command({**query})
    return [record async for record in cursor]
