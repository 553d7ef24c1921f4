"""The rule that text search finds every record: its texts are in the block that it names."""

from collections.abc import AsyncIterator, Mapping, Sequence
from math import inf
from typing import TypeAlias

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.record import TEXT_BLOCK, Record
from registry.model.resource import Resource
from registry.model.stored_fields import ID
from registry.storage.client import Database
from registry.storage.consistency.scans import NUMBERS, scan
from registry.storage.consistency.violations import Violation, shown
from registry.storage.records import key_of
from registry.storage.text_blocks import (
    NO_BLOCK,
    collection_of,
    has_lines,
    lines_in,
    searched_names,
)

_BLOCKS_AT_A_TIME = 32
"""Blocks per batch: about 1 MB."""

_Lines: TypeAlias = Mapping[str, frozenset[str]]


class TextsAreInBlocks:
    """The text block of each record of a type, if it names one, exists and has its texts.

    Blocks may have outdated texts beside them, which searches skip.
    """

    def __init__(self, database: Database, resource: Resource) -> None:
        self._resource = resource
        self._records = database[resource.collection]
        self._blocks = database[collection_of(resource)]

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records that a search would not find, by one scan of records and blocks."""
        fields = (*searched_names(self._resource), TEXT_BLOCK)
        in_blocks: Record = {TEXT_BLOCK: {"$nin": [None, NO_BLOCK]}}
        blocks = self._all_blocks(session)
        number, lines = await anext(blocks)
        async for records in scan(self._records, in_blocks, fields, (TEXT_BLOCK, ID), session):
            for record in records:
                named = key_of(record, TEXT_BLOCK)
                while named is not None and number < named:
                    number, lines = await anext(blocks)
                if named != number or lines is None or not has_lines(lines, record):
                    yield self._violation(record)

    async def _all_blocks(
        self, session: AsyncIOMotorClientSession
    ) -> AsyncIterator[tuple[float, _Lines | None]]:
        """Yield the number of each block with its lines, at last an infinite one without any."""
        names = searched_names(self._resource)
        scanned = scan(self._blocks, {ID: NUMBERS}, names, (ID,), session, _BLOCKS_AT_A_TIME)
        async for blocks in scanned:
            for block in blocks:
                yield block[ID], lines_in(self._resource, block)
        yield inf, None

    def _violation(self, record: Record) -> Violation:
        number = record[TEXT_BLOCK]
        reason = f"its texts are not in the text block {shown(number)}"
        return Violation(self._resource.collection, record[ID], reason, number)

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Take the records out of their blocks: searches then compare them one by one."""
        query = {
            ID: {"$in": [one.id for one in violations]},
            TEXT_BLOCK: {"$in": [one.value for one in violations]},
        }
        await self._records.update_many(query, {"$set": {TEXT_BLOCK: None}})
