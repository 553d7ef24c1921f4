"""The rules that stored data have to satisfy: how violations are found in a snapshot, and repaired.

The service may be writing during a repair: what it has written since the snapshot stays as it is.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from bson.int64 import Int64
from marshmallow import ValidationError
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo import ASCENDING, UpdateOne
from pymongo.errors import OperationFailure

from registry.model.attributes import Attribute, utc_text
from registry.model.authorship import AUTHORSHIP
from registry.model.graph import Graph
from registry.model.history import tracked_links
from registry.model.record import ID, TEXT_BLOCK, VERSION, Record
from registry.model.resource_type import Link, ResourceType
from registry.operations.histories import PeriodsAreRight
from registry.operations.rule import Rule, Violation, scan, shown
from registry.storage import (
    NEXT_VERSION,
    NO_BLOCK,
    SNAPSHOT_UNAVAILABLE,
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

_ATTEMPTS = 20
"""How often a check begins again because a collection or an index was created during it."""

_PAUSE_SECONDS = 0.1
"""Between attempts: the new collection or index has to be committed."""

_BAD_VALUE = 2
"""MongoDB's error code for the name of an index that is still being built."""

_PARTIAL = {"sparse", "partialFilterExpression"}


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


async def check(
    database: Database, graph: Graph, *, repair: bool = False, rules: Sequence[Rule] = ()
) -> Report:
    """Return the violations of all rules at one point in time, or of some.

    Clients may write meanwhile, and a service may start: if that creates a collection or an index,
    the check begins again. repair: whether to repair what is found. Raises SnapshotExpired or
    PyMongoError.
    """
    if repair:  # which cannot create a collection that the snapshot lacks
        await database.counters.create_index(ID)
    for _ in range(_ATTEMPTS - 1):
        try:
            return await _check_all(database, graph, rules, repair=repair)
        except OperationFailure as error:
            if error.code != SNAPSHOT_UNAVAILABLE:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
    return await _check_all(database, graph, rules, repair=repair)


async def _check_all(
    database: Database, graph: Graph, rules: Sequence[Rule], *, repair: bool
) -> Report:
    async with snapshot_session(database) as session:
        records = {
            one.collection: await _count(database[one.collection], {"$natural": 1}, session)
            for one in graph.values()
        }
        checked = rules or _rules(database, graph)
        return Report(records, [await _check(rule, session, repair=repair) for rule in checked])


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
        for link in () if resource.read_only else resource.links:  # periods outlive their targets
            yield TargetsExist(database, resource, link, graph)
        for tracked in tracked_links(graph):
            if tracked.source is resource:
                yield PeriodsAreRight(database, tracked, graph)
        if searched_names(resource):
            yield TextsAreInBlocks(database, resource)


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
        reason = f"{shown(last)} is not an integer from {greatest} up, the greatest id"
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


class RecordsAreValid(Rule):
    """Records have the form that their type declares, and values that requests may set.

    Those that were stored before the collection had a validator, or without it, may not.
    """

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records that MongoDB would refuse, then those with other invalid values."""
        query = {"$nor": [{"$jsonSchema": record_schema(self._resource)}]}
        async for record in self._records.find(query, session=session):
            invalid = invalid_fields(self._resource, record)
            fixed = dict(self._fixed(record, invalid))
            stored = {name: record.get(name) for name in (ID, *fixed)}
            reason = "; ".join(invalid.values())
            yield Violation(self._resource.collection, record[ID], reason, (stored, fixed))
        names = self._resource.attribute_names - self._resource.computed.keys()
        attributes = {name: self._resource.attributes[name] for name in names}
        async for records in scan(self._records, {}, (ID,), session, names):
            for record in records:
                defects = [
                    f"{name} is not valid: {defect}"
                    for name, attribute in attributes.items()
                    if (defect := value_defect(attribute, record.get(name)))
                ]
                if defects:
                    yield Violation(self._resource.collection, record[ID], "; ".join(defects))

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
        fixes = [one.value for one in violations if one.value]
        if updates := [UpdateOne(stored, {"$set": fixed}) for stored, fixed in fixes if fixed]:
            await self._records.bulk_write(updates)


class ComputedFieldsAreRight(Rule):
    """Computed attributes that are stored follow from their parts."""

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield a violation for each record with other ones; MongoDB compares them."""
        right = computed_texts(self._resource)
        wrong = {
            # What is not set, or null, is computed by the service.
            name: {"$and": [{"$gt": [f"${name}", None]}, {"$ne": [f"${name}", right[name]]}]}
            for name in right
        }
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
        self._graph = graph
        self._link = link
        self._targets = database[graph[link.target].collection]

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records whose foreign key is not the id of a target, by ascending key."""
        field = self._link.foreign_key
        targets = {"from": self._targets.name, "foreignField": ID, "as": "found"}
        stages: list[Record] = [
            {"$match": {field: {"$ne": None}}},
            {"$lookup": {**targets, "localField": field}},
            # An array would find the targets of its elements.
            {"$match": {"$or": [{"found": []}, {field: {"$type": "array"}}]}},
            {"$sort": {field: ASCENDING, ID: ASCENDING}},
            {"$project": {field: True}},
        ]
        async for record in self._records.aggregate(stages, session=session, allowDiskUse=True):
            target = f"a {self._link.target} that does not exist"
            reason = f"{self._link.name} is {shown(record[field])}, {target}"
            yield Violation(self._resource.collection, record[ID], reason, record[field])

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
        for tracked in tracked_links(self._graph):
            if tracked.link is self._link:
                await PeriodsAreRight(self._database, tracked, self._graph).repair(violations)


class TextsAreInBlocks(Rule):
    """Text search finds every record: the text block that it names exists and has its texts.

    Blocks may have outdated texts beside them, which searches skip.
    """

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records that a search would not find."""
        blocks = self._database[collection_of(self._resource)]
        query: Record = {TEXT_BLOCK: {"$nin": [None, NO_BLOCK]}}
        texts = searched_names(self._resource)
        async for records in scan(self._records, query, (TEXT_BLOCK, ID), session, texts):
            for number, members in groupby(records, itemgetter(TEXT_BLOCK)):
                block = await blocks.find_one({ID: {"$eq": number}}, session=session)
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


def value_defect(attribute: Attribute, value: Any) -> str | None:
    """Return why requests may not set a value, None if they may, or if it is of another type."""
    if not isinstance(value, attribute.stored_type) or value == attribute.stored_null:
        return None
    try:
        attribute.load(attribute.to_json(value))
    except ValidationError as error:
        return " ".join(map(str, error.messages))
    return None


async def _count(
    collection: AsyncIOMotorCollection[Record], hint: Any, session: AsyncIOMotorClientSession
) -> int:
    """Return the number of records in an index, or with the hint `$natural` in the collection."""
    found = await collection.aggregate([{"$count": "total"}], hint=hint, session=session).to_list(1)
    return found[0]["total"] if found else 0
