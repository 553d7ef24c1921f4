"""The rule that totals and filters are exact: each index has an entry for every record."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo.errors import OperationFailure

from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID
from registry.operations.consistency.violations import Violation
from registry.storage import Database

_BAD_VALUE = 2
"""MongoDB's error code for the name of an index that is still being built."""

_PARTIAL = {"sparse", "partialFilterExpression"}


class IndexesAreComplete:
    """Each index of a type has as many records as the collection itself.

    Totals are counted in the index of the id, others with a filter in the index of an attribute.
    Only MongoDB maintains indexes: one that is not complete was damaged with the files.
    """

    def __init__(self, database: Database, resource: ResourceType) -> None:
        self._collection = resource.collection
        self._records = database[resource.collection]

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the indexes that lack records."""
        total = await count(self._records, {"$natural": 1}, session)
        for name, index in (await self._records.index_information()).items():
            if not _PARTIAL.isdisjoint(index):
                continue
            try:
                entries = await count(self._records, name, session)
            except OperationFailure as error:
                if error.code != _BAD_VALUE:
                    raise
                continue
            if entries != total:
                remedy = "restore a backup" if name == f"{ID}_" else "drop it and start the service"
                reason = f"the index {name} has {entries:,} of {total:,} records: {remedy}"
                yield Violation(self._collection, None, reason)

    async def repair(self, _: Sequence[Violation]) -> None:
        """Leave the indexes as they are: files that are damaged need the care of somebody."""


async def count(
    collection: AsyncIOMotorCollection[Record], hint: Any, session: AsyncIOMotorClientSession
) -> int:
    """Return the number of records in an index, or with the hint `$natural` in the collection."""
    found = await collection.aggregate([{"$count": "total"}], hint=hint, session=session).to_list(1)
    return found[0]["total"] if found else 0
