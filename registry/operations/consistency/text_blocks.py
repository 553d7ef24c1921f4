"""The rule that text search finds every record: its texts are in the block that it names."""

from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from operator import itemgetter

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.record import TEXT_BLOCK, Record
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID
from registry.operations.consistency.scans import scan
from registry.operations.consistency.violations import Violation, shown
from registry.storage import NO_BLOCK, Database, collection_of, lacking, searched_names


class TextsAreInBlocks:
    """The text block of each record of a type, if it names one, exists and has its texts.

    Blocks may have outdated texts beside them, which searches skip.
    """

    def __init__(self, database: Database, resource: ResourceType) -> None:
        self._resource = resource
        self._records = database[resource.collection]
        self._blocks = database[collection_of(resource)]

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records that a search would not find."""
        fields = (*searched_names(self._resource), TEXT_BLOCK)
        in_blocks: Record = {TEXT_BLOCK: {"$nin": [None, NO_BLOCK]}}
        async for records in scan(self._records, in_blocks, fields, (TEXT_BLOCK, ID), session):
            for number, members in groupby(records, itemgetter(TEXT_BLOCK)):
                block = await self._blocks.find_one({ID: {"$eq": number}}, session=session)
                reason = f"its texts are not in the text block {shown(number)}"
                for record in lacking(self._resource, block, [*members]) if block else members:
                    yield Violation(self._resource.collection, record[ID], reason, number)

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Take the records out of their blocks: searches then compare them one by one."""
        query = {
            ID: {"$in": [one.id for one in violations]},
            TEXT_BLOCK: {"$in": [one.value for one in violations]},
        }
        await self._records.update_many(query, {"$set": {TEXT_BLOCK: None}})
