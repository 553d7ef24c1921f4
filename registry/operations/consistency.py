"""The rules that stored data have to satisfy: how violations are found in a snapshot, and repaired.

The service may be writing during a repair: what it has written since the snapshot stays as it is.
"""

import reprlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

import bson
from bson.int64 import Int64
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo import ASCENDING, UpdateOne
from pymongo.errors import OperationFailure

from registry.model.attributes.date import utc_text
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.model.record import TEXT_BLOCK, VERSION, Record
from registry.model.resource_type import Link, ResourceType
from registry.model.stored_fields import ID
from registry.storage import (
    NEXT_VERSION,
    NO_BLOCK,
    Database,
    collection_of,
    computed_texts,
    greatest_id,
    invalid_fields,
    lacking,
    recompute,
    record_schema,
    searched_names,
    snapshot_session,
)

_MAX_LISTED = 20
"""Violations of one rule that a report lists."""

_REPAIR_SIZE = 1_000
"""Violations per command that repairs them."""

_BATCH_SIZE = 1_000
"""Records that a scan holds in memory."""

_BAD_VALUE = 2
"""MongoDB's error code for the name of an index that is still being built."""

_PARTIAL = {"sparse", "partialFilterExpression"}


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that is stored and wrong.

    place, id: the collection and the id of a record; the id is None for anything else. reason: what
    is wrong, in one line. value: what is stored, if `Rule.repair` needs it.
    """

    place: str
    id: Any
    reason: str
    value: Any = None

    def __str__(self) -> str:
        place = self.place if self.id is None else f"{self.place}/{_shown(self.id)}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The violations of one rule: how many there are, and the first of them."""

    total: int
    listed: Sequence[Violation]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check. records: how many there are, by collection."""

    records: Mapping[str, int]
    rules: Sequence[RuleReport]

    @property
    def total(self) -> int:
        """The number of all violations."""
        return sum(one.total for one in self.rules)


async def check(database: Database, graph: Graph, *, repair: bool = False) -> Report:
    """Return the violations of all rules at one point in time.

    Clients may write meanwhile. repair: whether to repair what is found. Raises SnapshotExpired or
    PyMongoError.
    """
    async with snapshot_session(database) as session:
        records = {
            one.collection: await _count(database[one.collection], {"$natural": 1}, session)
            for one in graph.values()
        }
        rules = _rules(database, graph)
        return Report(records, [await _check(rule, session, repair=repair) for rule in rules])


async def _check(rule: "Rule", session: AsyncIOMotorClientSession, *, repair: bool) -> RuleReport:
    total, listed, batch = 0, list[Violation](), list[Violation]()
    async for violation in rule.violations(session):
        total += 1
        if total <= _MAX_LISTED:
            listed.append(violation)
        if repair:
            batch.append(violation)
        if len(batch) == _REPAIR_SIZE:
            await rule.repair(batch)
            batch.clear()
    if batch:
        await rule.repair(batch)
    return RuleReport(total, listed)


def _rules(database: Database, graph: Graph) -> Iterator["Rule"]:
    for resource in graph.values():
        yield CounterIsAhead(database, resource)
        yield IndexesAreComplete(database, resource)
        yield RecordsAreValid(database, resource)
        if resource.computed:
            yield ComputedFieldsAreRight(database, resource)
        for link in resource.links:
            yield TargetsExist(database, resource, link, graph)
        if searched_names(resource):
            yield TextsAreInBlocks(database, resource)


class Rule(ABC):
    """One thing that the records of a type have to satisfy. The methods raise PyMongoError."""

    def __init__(self, database: Database, resource: ResourceType) -> None:
        self._database = database
        self._resource = resource
        self._records = database[resource.collection]

    @abstractmethod
    def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield all violations in the snapshot of a session, with constant memory."""

    @abstractmethod
    async def repair(self, violations: Sequence[Violation]) -> None:
        """Store what is right, where other data say it."""


class CounterIsAhead(Rule):
    """Ids are never reused: the counter is an integer that is not less than the greatest id."""

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the violation if the counter is missing, not an integer, or less."""
        name = self._resource.type
        counter = await self._database.counters.find_one({ID: name}, session=session) or {}
        greatest = await greatest_id(self._records, session)
        last = counter.get("seq")
        if (last is None and not greatest) or (
            isinstance(last, int) and not isinstance(last, bool) and last >= greatest
        ):
            return
        reason = f"{_shown(last)} is not an integer from {greatest} up, the greatest id"
        yield Violation(f"counters/{name}", None, reason)

    async def repair(self, _: Sequence[Violation]) -> None:
        """Raise the counter to the greatest id, in one step with what services add to it."""
        last = {"$convert": {"input": "$seq", "to": "long", "onError": 0, "onNull": 0}}
        update = {"seq": {"$max": [last, await greatest_id(self._records)]}}
        query = {ID: self._resource.type}
        await self._database.counters.update_one(query, [{"$set": update}], upsert=True)


class IndexesAreComplete(Rule):
    """Totals and filters are exact: each index has as many records as the collection itself.

    Only MongoDB maintains indexes: one that is not complete was damaged with the files.
    """

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the indexes that lack records."""
        total = await _count(self._records, {"$natural": 1}, session)
        for name, index in (await self._records.index_information()).items():
            if not _PARTIAL.isdisjoint(index):
                continue
            try:
                entries = await _count(self._records, name, session)
            except OperationFailure as error:
                if error.code != _BAD_VALUE:
                    raise
                continue
            if entries != total:
                remedy = "restore a backup" if name == f"{ID}_" else "drop it and start the service"
                reason = f"the index {name} has {entries:,} of {total:,} records: {remedy}"
                yield Violation(self._resource.collection, None, reason)

    async def repair(self, _: Sequence[Violation]) -> None:
        """Leave the indexes as they are: damaged files must be repaired by an operator."""


class RecordsAreValid(Rule):
    """Records have the form that their type declares, as the validator of the collection says.

    Those that were stored before there was a validator, or without it, may not.
    """

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records that MongoDB would refuse."""
        query = {"$nor": [{"$jsonSchema": record_schema(self._resource)}]}
        async for record in self._records.find(query, session=session):
            invalid = invalid_fields(self._resource, record)
            fixed = dict(self._fixed(record, invalid))
            stored = {name: record.get(name) for name in (ID, *fixed)}
            reason = "; ".join(invalid.values())
            yield Violation(self._resource.collection, record[ID], reason, (stored, fixed))

    def _fixed(self, record: Record, invalid: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Yield the invalid fields that can be repaired, and their values after that."""
        for name in invalid:
            value = record.get(name)
            if name == VERSION:
                yield name, 0
            elif name in AUTHORSHIP and isinstance(value, datetime):
                yield name, utc_text(value.replace(tzinfo=UTC))
            elif name != ID and isinstance(value, float) and value.is_integer():
                yield name, Int64(value)

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Store the version 0, times as text, and integers as such, unless changed since."""
        fixes = [one.value for one in violations]
        if updates := [UpdateOne(stored, {"$set": fixed}) for stored, fixed in fixes if fixed]:
            await self._records.bulk_write(updates)


class ComputedFieldsAreRight(Rule):
    """Computed attributes are stored as their parts say."""

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield a violation for each record with other ones; MongoDB compares them."""
        right = computed_texts(self._resource)
        wrong = {name: {"$ne": [f"${name}", right[name]]} for name in right}
        stages: list[Record] = [
            {"$match": {"$expr": {"$or": list(wrong.values())}}},
            {"$project": wrong},
        ]
        async for record in self._records.aggregate(stages, session=session):
            reason = "; ".join(self._reason(name) for name in right if record[name])
            yield Violation(self._resource.collection, record[ID], reason)

    def _reason(self, name: str) -> str:
        return f"{name} does not follow from {', '.join(self._resource.computed[name].parts)}"

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Compute the fields from the records as they are now; this changes no response."""
        ids = [one.id for one in violations]
        await self._records.update_many({ID: {"$in": ids}}, recompute(self._resource))


class TargetsExist(Rule):
    """The targets of all links of one kind exist.

    A link without a target is removed, as the deletion of the target would have done.
    """

    def __init__(
        self, database: Database, resource: ResourceType, link: Link, graph: Graph
    ) -> None:
        super().__init__(database, resource)
        self._link = link
        self._targets = database[graph[link.target].collection]

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records whose foreign key is not the id of a target, by ascending key."""
        field = self._link.foreign_key
        targets = _AscendingIds(self._targets, session)
        async for records in _scan(self._records, {field: {"$ne": None}}, (field, ID), session):
            for record in records:
                if not await targets.have(key := record[field]):
                    target = f"a {self._link.target} that does not exist"
                    reason = f"{self._link.name} is {_shown(key)}, {target}"
                    yield Violation(self._resource.collection, record[ID], reason, key)

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Remove the links, unless they have been changed or their targets created since."""
        field = self._link.foreign_key
        values = [one.value for one in violations]
        created = [one[ID] async for one in self._targets.find({ID: {"$in": values}}, [ID])]
        query = {
            ID: {"$in": [one.id for one in violations]},
            field: {"$in": values, "$nin": created},
        }
        update = {field: None, VERSION: NEXT_VERSION}
        await self._records.update_many(query, [{"$set": update}])


class TextsAreInBlocks(Rule):
    """Text search finds every record: the text block that it names exists and has its texts.

    Blocks may have outdated texts beside them, which searches skip.
    """

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records that a search would not find."""
        blocks = self._database[collection_of(self._resource)]
        query: Record = {TEXT_BLOCK: {"$nin": [None, NO_BLOCK]}}
        texts = searched_names(self._resource)
        async for records in _scan(self._records, query, (TEXT_BLOCK, ID), session, texts):
            for number, members in groupby(records, itemgetter(TEXT_BLOCK)):
                block = await blocks.find_one({ID: {"$eq": number}}, session=session)
                reason = f"its texts are not in the text block {_shown(number)}"
                for record in lacking(self._resource, block, [*members]) if block else members:
                    yield Violation(self._resource.collection, record[ID], reason, number)

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Take the records out of their blocks: searches then compare them one by one."""
        query = {
            ID: {"$in": [one.id for one in violations]},
            TEXT_BLOCK: {"$in": [one.value for one in violations]},
        }
        await self._records.update_many(query, {"$set": {TEXT_BLOCK: None}})


class _AscendingIds:
    """The ids of a collection, for lookups in ascending order: one scan serves all of them."""

    def __init__(
        self, collection: AsyncIOMotorCollection[Record], session: AsyncIOMotorClientSession
    ) -> None:
        # Python compares these in the order of MongoDB, unlike NaN and other types.
        numbers = {ID: {"$type": ["int", "long", "double"], "$gte": float("-inf")}}
        self._batches = _scan(collection, numbers, (ID,), session)
        self._ids: set[Any] = set()
        self._greatest: float = float("-inf")

    async def have(self, value: Any) -> bool:
        """Return whether an id is this value, a number that is not less than any before it."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        while self._greatest < value:
            batch = await anext(self._batches, None)
            self._ids = {record[ID] for record in batch or ()}
            self._greatest = batch[-1][ID] if batch else float("inf")
        return value in self._ids


async def _scan(
    collection: AsyncIOMotorCollection[Record],
    query: Record,
    order: Sequence[str],
    session: AsyncIOMotorClientSession,
    fields: Iterable[str] = (),
) -> AsyncIterator[list[Record]]:
    """Yield batches of the records that satisfy a query, in the order of some fields.

    fields: those to return beside these. Raises PyMongoError.
    """
    # A cursor that decodes each record on its own takes several times as long.
    cursor = collection.find_raw_batches(
        query,
        [*order, *fields],
        sort=[(field, ASCENDING) for field in order],
        batch_size=_BATCH_SIZE,
        allow_disk_use=True,  # while the index is not yet built
        session=session,
    )
    async for batch in cursor:
        yield bson.decode_all(batch, collection.codec_options)


async def _count(
    collection: AsyncIOMotorCollection[Record], hint: Any, session: AsyncIOMotorClientSession
) -> int:
    """Return the number of records in an index, or with the hint `$natural` in the collection."""
    found = await collection.aggregate([{"$count": "total"}], hint=hint, session=session).to_list(1)
    return found[0]["total"] if found else 0


def _shown(value: Any) -> str:
    """Return a stored value, which external writers may have made long, as a part of a line."""
    return reprlib.repr(value)
