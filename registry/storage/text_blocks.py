"""Text blocks: the texts of many records in one document, which a substring search reads at once.

Reading a block takes at most a fortieth of the time of comparing its records one by one.
"""

import asyncio
import datetime
import re
import time
from collections.abc import Sequence
from typing import Any

from pymongo import ASCENDING
from pymongo.write_concern import WriteConcern

from registry.model.attributes import utc_text
from registry.model.implicit_attributes import UPDATED_AT
from registry.model.record import ID, TEXT_BLOCK, Record
from registry.model.resource_type import ResourceType
from registry.storage.bulkheads import Bulkheads
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import Stage, projection, searched_names

BLOCK_SIZE = 256
"""Records in a block."""

NO_BLOCK = 0
"""The value of TEXT_BLOCK for a record that no block can hold; the ids of blocks are greater."""

_MAX_LENGTH = 4_096
"""Characters of an attribute in a block; only external writers store more."""

_UNDECODABLE = "\N{REPLACEMENT CHARACTER}"
"""What the driver returns for bytes that are not text."""

_ID_SEPARATOR, _LINE_END = "\x1f", "\n"

_SEPARATORS = re.compile("[\0\x1f\n]")
"""What separates the texts, and NUL, which no pattern of MongoDB can contain."""

_SETTLE_SECONDS = 5.0
"""Records written within this time stay outside: an update of one that a transaction is writing
would fail all requests that share it."""

_PAUSE_SECONDS = 1.0
"""The pause after each block while there are requests. Adding a record takes a third of the CPU
time of creating it."""

_SAMPLED_BLOCKS, _MIN_MEMBERS = 4, BLOCK_SIZE // 2
"""Blocks checked for each new one, and the fewest records of a block that is kept: then at most a
third of all blocks have fewer."""

_ORDER = [(TEXT_BLOCK, ASCENDING), (ID, ASCENDING)]

_FILLING = "_filling"
"""The field of a block to which records may still be added. If the process ends before removing the
field, the only harm is that the block is never removed."""


def collection_of(resource: ResourceType) -> str:
    """Return the name of the collection with the text blocks of a type."""
    return f"{resource.collection}.text_blocks"


def fold(text: str) -> str:
    """Return the form of a text, or of a part of one, in which blocks are searched.

    Letters that are equal but for their case get the same form, each on its own; so do others, as
    `ß` and `ss`.
    """
    return _SEPARATORS.sub(" ", text.casefold())


def fits(resource: ResourceType, record: Record) -> bool:
    """Whether a block can hold the texts of a record; others are searched by themselves."""
    texts = [text for name in searched_names(resource) if (text := record.get(name)) is not None]
    return all(
        isinstance(text, str) and len(text) <= _MAX_LENGTH and _UNDECODABLE not in text
        for text in texts
    )


def block(resource: ResourceType, records: Sequence[Record]) -> dict[str, str]:
    """Return the texts of all records by attribute: for each record its folded text and its id.

    A record without a computed attribute leaves its block when that is computed.
    """
    return {
        name: "".join(_line(record, name) for record in records)
        for name in searched_names(resource)
    }


def lacking(resource: ResourceType, stored: Record, records: Sequence[Record]) -> list[Record]:
    """Return the records whose texts a stored block does not have."""
    lines = {
        name: frozenset(str(stored.get(name, "")).split(_LINE_END))
        for name in searched_names(resource)
    }
    return [
        record
        for record in records
        if not fits(resource, record)
        or any(_line(record, name).rstrip(_LINE_END) not in lines[name] for name in lines)
    ]


def has_text(name: str, part: str) -> dict[str, Any]:
    """Return the query for blocks in which texts of an attribute, or ids, have a folded part."""
    position = {"$indexOfBytes": [f"${name}", {"$literal": part}]}
    return {"$expr": {"$gte": [position, 0]}}  # null, which is less, if there are no texts


def matched_ids(name: str, part: str) -> dict[str, Any]:
    """Return the aggregation expression for the ids of the texts that have the folded part."""
    rest = f"[^{_ID_SEPARATOR}{_LINE_END}]*{_ID_SEPARATOR}(-?[0-9]+){_LINE_END}"
    matches = {"input": f"${name}", "regex": {"$literal": re.escape(part) + rest}}
    id_ = {"$toLong": {"$first": "$$this.captures"}}
    return {"$map": {"input": {"$regexFindAll": matches}, "in": id_}}


def _line(record: Record, name: str) -> str:
    """Return the line of a record in a block: a folded text with the id; empty without a text."""
    text = record.get(name)
    return "" if text is None else f"{fold(text)}{_ID_SEPARATOR}{record['_id']}{_LINE_END}"


class TextIndexing:
    """The text blocks of one type. The methods raise PyMongoError.

    A block is stored before its number is, in those of its records whose texts are still the same.
    So at each point in time every record is either in its block or outside. A transaction for both
    would take twice the CPU time of mongod. bulkheads: show whether requests are in progress.
    """

    def __init__(self, resource: ResourceType, database: Database, bulkheads: Bulkheads) -> None:
        self._resource = resource
        self._records = database[resource.collection]
        self._blocks = database[collection_of(resource)]
        # Write concern 1, not the majority: records whose new field is lost are outside again.
        self._records_w1 = self._records.with_options(write_concern=WriteConcern(1))
        self._blocks_w1 = self._blocks.with_options(write_concern=WriteConcern(1))
        self._bulkheads = bulkheads
        self._names = searched_names(resource)

    async def index(self) -> None:
        """Move settled records into new blocks, in the order of their ids, while they fill one."""
        after = float("-inf")
        while len(records := await self._settled(after)) == BLOCK_SIZE:
            after = records[-1][ID]
            if await self._add(records) < _MIN_MEMBERS:
                return  # another process adds them
            await self._remove_sparse()
            await asyncio.sleep(0 if self._bulkheads.are_idle else _PAUSE_SECONDS)

    async def _settled(self, after: float) -> list[Record]:
        """Return the first settled records outside with greater ids, at most a block of them.

        Those that no block can hold are marked instead. External writers may store other ids than
        integers; such records stay outside.
        """
        settled = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=_SETTLE_SECONDS)
        query = {
            TEXT_BLOCK: None,
            ID: {"$type": ["int", "long"], "$gt": after},
            UPDATED_AT: {"$not": {"$gte": utc_text(settled)}},
        }
        while True:
            found = self._records.find(
                query, projection(self._names), sort=_ORDER, limit=BLOCK_SIZE
            )
            # MongoDB may choose the index of the ids, and examine all records for few.
            records = await found.hint(_ORDER).batch_size(BLOCK_SIZE + 1).to_list(BLOCK_SIZE)
            others = [record[ID] for record in records if not fits(self._resource, record)]
            if not others:
                return records
            unfit = {ID: {"$in": others}, TEXT_BLOCK: None}
            await self._records.update_many(unfit, {"$set": {TEXT_BLOCK: NO_BLOCK}})

    async def _add(self, records: Sequence[Record]) -> int:
        """Store a block of these records; return how many were added to it.

        The others have been changed, deleted, or added by another process in the meantime.
        """
        number = time.time_ns() // 1_000  # so it is never used again
        stored = {ID: number, _FILLING: True, **block(self._resource, records)}
        await self._blocks.insert_one(stored)
        ids = [record[ID] for record in records]
        texts = [[record.get(name) for name in self._names] for record in records]
        known = {"$arrayElemAt": [{"$literal": texts}, {"$indexOfArray": [ids, f"${ID}"]}]}
        is_same = {"$eq": [[f"${name}" for name in self._names], known]}
        unchanged = {ID: {"$in": ids}, TEXT_BLOCK: None, "$expr": is_same}
        added = await self._records_w1.update_many(unchanged, {"$set": {TEXT_BLOCK: number}})
        await self._blocks_w1.update_one({ID: number}, {"$unset": {_FILLING: True}})
        return added.modified_count

    async def _remove_sparse(self) -> None:
        """Check random blocks; remove the sparse ones, whose records are then outside."""
        sample: list[Stage] = [{"$sample": {"size": _SAMPLED_BLOCKS}}, {"$match": {_FILLING: None}}]
        sampled = self._blocks.aggregate([*sample, {"$project": {ID: True}}])
        numbers = {each[ID] async for each in sampled}
        count_members: list[Stage] = [
            {"$match": {TEXT_BLOCK: {"$in": list(numbers)}}},
            {"$group": {ID: f"${TEXT_BLOCK}", "members": {"$sum": 1}}},
            {"$match": {"members": {"$gte": _MIN_MEMBERS}}},
        ]
        numbers -= {each[ID] async for each in self._records.aggregate(count_members)}
        if numbers:
            query = {"$in": list(numbers)}
            await self._records.update_many({TEXT_BLOCK: query}, {"$set": {TEXT_BLOCK: None}})
            await self._blocks.delete_many({ID: query})
