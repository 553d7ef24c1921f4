"""Text indexing: adds the texts of records to text blocks, and removes outdated blocks."""

import asyncio
import logging
import time
from functools import partial

from pymongo import ASCENDING, DESCENDING

from registry.model.record import TEXT_BLOCK, Record
from registry.model.resource import Resource
from registry.model.stored_fields import ID
from registry.storage.client import Database
from registry.storage.records import ONE_BATCH
from registry.storage.text_blocks import (
    BLOCK_SIZE,
    NO_BLOCK,
    block,
    collection_of,
    fits,
    searched_names,
)
from registry.storage.transactions import Transaction, Transactions
from registry.storage.visible_fields import only

_log = logging.getLogger("registry")

_BLOCKS_AT_A_TIME = 4
"""Blocks per transaction, which delays writes of the same records by about 20 ms."""

_CHECKS_PER_BLOCK = 2
"""Blocks that are checked for each new one, so that outdated ones cannot accumulate."""

_LOG_SECONDS = 5.0


class TextIndexing:
    """The text blocks of one type. The methods raise Unavailable or PyMongoError.

    A transaction stores blocks together with their ids in the records, so that at each point in
    time every record is either in its block or outside. Ids and versions of resources stay as they
    are. When two processes index at the same time, one of them raises TransactionConflict.
    """

    def __init__(self, resource: Resource, database: Database, transactions: Transactions) -> None:
        self._resource = resource
        self._records = database[resource.collection]
        self._blocks = database[collection_of(resource)]
        self._transactions = transactions
        self._projection = only(searched_names(resource))
        self._after: int | None = None
        self._last_checked = NO_BLOCK

    async def index(self) -> None:
        """Add the records outside blocks to new blocks, as long as they fill one."""
        progress = _Progress(self._resource.collection)
        while True:
            began = time.monotonic()
            added = await self._add()
            if not added and self._after is None:
                break
            if not added:
                self._after = None  # others were written before, or have ids of other types
            elif progress.is_due(added):
                progress.log(await self._records.count_documents({TEXT_BLOCK: None}))
            await asyncio.sleep(time.monotonic() - began)  # leaves half of the time to requests
        if progress.done:
            await self._remove_outdated(_CHECKS_PER_BLOCK * -(-progress.done // BLOCK_SIZE))

    async def _add(self) -> int:
        """Add records to some blocks; return how many, 0 if the rest does not fill one."""
        return (await self._transactions.attempt(self._add_in)).result

    async def _add_in(self, transaction: Transaction) -> int:
        session = transaction.session
        limit = _BLOCKS_AT_A_TIME * BLOCK_SIZE
        query: Record = {TEXT_BLOCK: None}
        if self._after is not None:
            # In this index, MongoDB skips the entries of the last five minutes one by one.
            query[ID] = {"$gt": self._after}
        order = [(ID, ASCENDING)]
        cursor = self._records.find(
            query, self._projection, sort=order, limit=limit, session=session
        )
        found = await cursor.batch_size(ONE_BATCH).to_list(limit)
        fitting, others = list[Record](), list[Record]()
        for record in found:
            (fitting if fits(self._resource, record) else others).append(record)
        if others:
            await self._move(others, NO_BLOCK, transaction)
        newest = await self._blocks.find_one({}, only(()), sort=_NEWEST, session=session)
        number = newest[ID] if newest else NO_BLOCK
        full = len(fitting) // BLOCK_SIZE * BLOCK_SIZE
        for start in range(0, full, BLOCK_SIZE):
            number += 1
            members = fitting[start : start + BLOCK_SIZE]
            texts = block(self._resource, members)
            await self._blocks.insert_one({ID: number, **texts}, session=session)
            await self._move(members, number, transaction)
        if full:
            self._after = fitting[full - 1][ID]
        return full + len(others)

    async def _move(self, records: list[Record], number: int, transaction: Transaction) -> None:
        query = {ID: {"$in": [record[ID] for record in records]}}
        update = {"$set": {TEXT_BLOCK: number}}
        await self._records.update_many(query, update, session=transaction.session)

    async def _remove_outdated(self, count: int) -> None:
        """Check the next blocks; the records of those that have lost most of them leave them."""
        query = {ID: {"$gt": self._last_checked}}
        found = self._blocks.find(query, only(()), sort=[(ID, ASCENDING)], limit=count)
        numbers = [each[ID] for each in await found.to_list(count)]
        for number in numbers:
            members = await self._records.count_documents({TEXT_BLOCK: number})
            if members < BLOCK_SIZE // 2:
                await self._transactions.attempt(partial(self._remove, number))
        self._last_checked = numbers[-1] if len(numbers) == count else NO_BLOCK

    async def _remove(self, number: int, transaction: Transaction) -> None:
        session = transaction.session
        query, update = {TEXT_BLOCK: number}, {"$set": {TEXT_BLOCK: None}}
        await self._records.update_many(query, update, session=session)
        await self._blocks.delete_one({ID: number}, session=session)


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


_NEWEST = [(ID, DESCENDING)]
