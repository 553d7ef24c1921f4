"""Scans of a whole collection in the order of an index, so that two of them can be merged."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import bson
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo import ASCENDING

from registry.model.record import Record
from registry.model.stored_fields import ID
from registry.storage import only

NUMBERS = {"$type": ["int", "long", "double"], "$gte": float("-inf")}
"""The condition on fields whose values Python compares in the order of MongoDB: not with NaN, and
not with the other types that external writers may store."""


async def scan(
    collection: AsyncIOMotorCollection[Record],
    query: Record,
    fields: Iterable[str],
    order: Iterable[str],
    session: AsyncIOMotorClientSession,
    batch_size: int = 1_000,
) -> AsyncIterator[list[Record]]:
    """Yield the records that satisfy a query, in batches, in the order of some fields.

    fields: those to return beside the id. batch_size: what memory holds at once. Raises
    PyMongoError.
    """
    # A cursor that decodes each record on its own takes several times as long.
    cursor = collection.find_raw_batches(
        query,
        only(fields),
        sort=[(field, ASCENDING) for field in order],
        batch_size=batch_size,
        allow_disk_use=True,  # while the index is not yet built
        session=session,
    )
    async for batch in cursor:
        yield bson.decode_all(batch, collection.codec_options)


class AscendingIds:
    """The ids of a collection, for look-ups in ascending order: one scan serves all of them."""

    def __init__(
        self, collection: AsyncIOMotorCollection[Record], session: AsyncIOMotorClientSession
    ) -> None:
        self._batches = scan(collection, {ID: NUMBERS}, (), (ID,), session)
        self._ids: set[Any] = set()
        self._greatest: float = float("-inf")

    async def have(self, number: int) -> bool:
        """Return whether an id is this number, which is not less than any before it."""
        while self._greatest < number:
            batch = await anext(self._batches, None)
            self._ids = {record[ID] for record in batch or ()}
            self._greatest = batch[-1][ID] if batch else float("inf")
        return number in self._ids
