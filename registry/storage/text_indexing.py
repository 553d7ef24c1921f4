"""Text indexing: adds the texts of records to text blocks, and removes outdated blocks."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from pymongo import ASCENDING, DESCENDING, UpdateMany
from pymongo.errors import BulkWriteError
from pymongo.write_concern import WriteConcern

from registry.model.record import TEXT_BLOCK, Record
from registry.model.resource import Resource
from registry.model.stored_fields import ID
from registry.storage.backlog import Backlog
from registry.storage.bulkheads import Bulkheads
from registry.storage.client import Database
from registry.storage.errors import DUPLICATE_KEY
from registry.storage.records import ONE_BATCH
from registry.storage.text_blocks import (
    BLOCK_SIZE,
    NO_BLOCK,
    block,
    collection_of,
    fits,
    searched_names,
)
from registry.storage.visible_fields import only

_log = logging.getLogger("registry")

_BLOCKS_AT_A_TIME = 4
"""Blocks per command: while the driver encodes or decodes their records, no other thread runs."""

_CHECKS_PER_BLOCK = 2
"""Blocks that are checked for each new one, so that outdated ones cannot accumulate."""

_CONFLICT_SECONDS = 1.0
"""The pause after a conflict with another process that adds the same records."""

_PAUSE_FACTOR = 9
"""How many times as long as a round of commands the pause after it is, while there are requests.
With 1, the rates of updates and creates are about 6 and 10 % lower."""

_MAX_PAUSE_SECONDS = 1.0
"""After this, it is checked again whether there are requests, and whether it is urgent."""

_LOG_SECONDS = 5.0

_FILLING = "_filling"
"""The field of a block to which records may still be added. It is kept if the process ends in
between; the only harm is that the block is never removed."""


class TextIndexing:
    """The text blocks of one type. The methods raise PyMongoError.

    A block is stored before its number is, in those of its records whose texts are still the same.
    So at each point in time every record is either in its block or outside. A transaction for both
    would take three times the CPU time of mongod. Ids and versions of resources stay as they are.
    bulkheads: show whether requests are in progress. backlog: shows whether it is urgent to add
    records, so that the pauses are as long as the rounds of commands.
    """

    def __init__(
        self, resource: Resource, database: Database, bulkheads: Bulkheads, backlog: Backlog
    ) -> None:
        self._resource = resource
        self._records = database[resource.collection]
        self._blocks = database[collection_of(resource)]
        # Without a wait for the majority: records whose new field is lost are outside again.
        self._members = self._records.with_options(write_concern=WriteConcern(1))
        self._filled = self._blocks.with_options(write_concern=WriteConcern(1))
        self._bulkheads = bulkheads
        self._backlog = backlog
        self._names = searched_names(resource)
        self._last_checked = NO_BLOCK

    async def index(self) -> None:
        """Add the records outside blocks to new blocks, as long as they fill one."""
        progress, newest = _Progress(self._resource.collection), await self._newest()
        while await self._add_all(progress):
            pass  # others may have been written with lower ids, or have ids of other types
        if progress.done:
            count = _CHECKS_PER_BLOCK * -(-progress.done // BLOCK_SIZE)
            await self._remove_outdated(count, newest)

    async def _add_all(self, progress: "_Progress") -> int:
        """Add records in the order of their ids; return how many, 0 if the rest fills no block."""
        total, after = 0, None
        while True:
            began = time.monotonic()
            fitting = await self._outside(after)
            blocks = [
                fitting[start : start + BLOCK_SIZE]
                for start in range(0, len(fitting) - BLOCK_SIZE + 1, BLOCK_SIZE)
            ]
            if not blocks:
                return total
            added = await self._add(blocks)
            after = blocks[-1][-1][ID]
            total += added
            elapsed = time.monotonic() - began
            self._backlog.added(self._resource.type, added)
            if progress.is_due(added):
                progress.log(await self._records.count_documents({TEXT_BLOCK: None}))
            if 2 * added < BLOCK_SIZE * len(blocks):
                await asyncio.sleep(_CONFLICT_SECONDS)
            else:
                await self._pause(elapsed)

    async def _pause(self, elapsed: float) -> None:
        """Leave time to requests, if there are any. elapsed: seconds of the round of commands."""
        if not self._bulkheads.are_idle:
            factor = 1 if self._backlog.is_urgent() else _PAUSE_FACTOR
            await asyncio.sleep(min(factor * elapsed, _MAX_PAUSE_SECONDS))

    async def _outside(self, after: int | None) -> list[Record]:
        """Return the first records outside blocks after an id; mark those that no block can hold.

        They are fewer than _BLOCKS_AT_A_TIME blocks hold only if no others follow.
        """
        limit = _BLOCKS_AT_A_TIME * BLOCK_SIZE
        query: Record = {TEXT_BLOCK: None}
        if after is not None:
            # In this index, MongoDB skips the entries of the last five minutes one by one.
            query[ID] = {"$gt": after}
        while True:
            cursor = self._records.find(query, only(self._names), sort=_OLDEST, limit=limit)
            found = await cursor.batch_size(ONE_BATCH).to_list(limit)
            fitting, others = list[Record](), list[Any]()
            for record in found:
                if fits(self._resource, record):
                    fitting.append(record)
                else:
                    others.append(record[ID])
            if not others or not await self._mark(others):
                return fitting

    async def _mark(self, ids: list[Any]) -> bool:
        """Mark records that no block can hold; return whether any were found.

        External writers may have stored ids that the driver cannot decode.
        """
        query, update = {ID: {"$in": ids}, TEXT_BLOCK: None}, {"$set": {TEXT_BLOCK: NO_BLOCK}}
        return bool((await self._records.update_many(query, update)).modified_count)

    async def _add(self, blocks: list[list[Record]]) -> int:
        """Store blocks of these records; return how many of the records were added to them.

        The others have been changed, deleted, or added by another process in the meantime.
        """
        first = await self._newest() + 1
        numbers = range(first, first + len(blocks))
        stored: list[Record] = []
        for number, records in zip(numbers, blocks, strict=True):
            stored.append({ID: number, _FILLING: True, **block(self._resource, records)})
            await asyncio.sleep(0)  # a block takes about 1 ms
        try:
            await self._blocks.insert_many(stored)
        except BulkWriteError as error:
            if [one["code"] for one in error.details["writeErrors"]] != [DUPLICATE_KEY]:
                raise
            return 0  # another process has stored blocks with the same numbers
        additions = [
            UpdateMany(self._unchanged(records), {"$set": {TEXT_BLOCK: number}})
            for number, records in zip(numbers, blocks, strict=True)
        ]
        result = await self._members.bulk_write(additions, ordered=False)
        filled = {ID: {"$in": list(numbers)}}
        await self._filled.update_many(filled, {"$unset": {_FILLING: True}})
        return result.modified_count

    def _unchanged(self, records: Sequence[Record]) -> Record:
        """Return the query for those of the records that are outside and have the same texts."""
        ids = [record[ID] for record in records]
        texts = [[record.get(name) for name in self._names] for record in records]
        index = {"$indexOfArray": [{"$literal": ids}, f"${ID}"]}
        current = [f"${name}" for name in self._names]
        is_same = {"$eq": [current, {"$arrayElemAt": [{"$literal": texts}, index]}]}
        return {ID: {"$in": ids}, TEXT_BLOCK: None, "$expr": is_same}

    async def _newest(self) -> int:
        """Return the number of the newest block, NO_BLOCK if there is none."""
        newest = await self._blocks.find_one({}, only(()), sort=_NEWEST)
        return newest[ID] if newest else NO_BLOCK

    async def _remove_outdated(self, count: int, newest: int) -> None:
        """Check the next blocks; remove those that have lost most of their records.

        Their other records are then outside of blocks. newest: the first block that is not checked.
        As the newest one is never removed, no other gets its number.
        """
        query = {ID: {"$gt": self._last_checked, "$lt": newest}, _FILLING: None}
        found = self._blocks.find(query, only(()), sort=_OLDEST, limit=count)
        numbers = [each[ID] for each in await found.to_list(count)]
        half = BLOCK_SIZE // 2
        for number in numbers:
            began = time.monotonic()
            if await self._records.count_documents({TEXT_BLOCK: number}, limit=half) < half:
                await self._records.update_many({TEXT_BLOCK: number}, {"$set": {TEXT_BLOCK: None}})
                await self._blocks.delete_one({ID: number})
            await self._pause(time.monotonic() - began)
        self._last_checked = numbers[-1] if len(numbers) == count else NO_BLOCK


class _Progress:
    """Logs how many records were added, if it takes long. done: how many."""

    def __init__(self, name: str) -> None:
        self.done = 0
        self._name = name
        self._began = self._logged = time.monotonic()

    def is_due(self, added: int) -> bool:
        """Add records; return whether to log."""
        self.done += added
        return time.monotonic() - self._logged > _LOG_SECONDS

    def log(self, rest: int) -> None:
        self._logged = time.monotonic()
        rate = self.done / (self._logged - self._began)
        text = "Indexing the text of %s: %d done, %d left, %d per second"
        _log.info(text, self._name, self.done, rest, rate)


_OLDEST, _NEWEST = [(ID, ASCENDING)], [(ID, DESCENDING)]
