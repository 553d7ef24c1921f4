"""The rules for stored data: how violations are found in a snapshot, and repaired.

The service may be writing during a repair, which keeps whatever was written since the snapshot.
"""

import reprlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import bson
from marshmallow import ValidationError
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo import ASCENDING
from pymongo.errors import OperationFailure

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import SINCE, UNTIL
from registry.model.record import ID, VERSION, Record
from registry.model.resource_field import ResourceField
from registry.model.resource_type import Link, ResourceType
from registry.storage.counters import COUNTERS, LAST, IdCounter, count_records, store_counter
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import (
    NEXT_VERSION,
    invalid_fields,
    recompute,
)
from registry.storage.writes.link_periods import (
    HAS_BOUNDS,
    correction,
    is_history_complete,
    open_link_periods,
)

_BATCH_SIZE = 1_000
"""Records that a scan holds in memory."""

_COUNT_ATTEMPTS = 10
"""How often a collection is counted again that changes meanwhile."""

_BAD_VALUE = 2
"""MongoDB's error code for the name of an index that is still being built."""

_PARTIAL = {"sparse", "partialFilterExpression"}

_NUMBERS = {"$type": ["int", "long"]}


@dataclass(frozen=True, slots=True)
class Violation:
    """A defect in the stored data.

    place, id: the collection and the id of a record; the id is None for anything else. reason: what
    is wrong, in one line. value: what is stored, if `Rule.repair` needs it.
    """

    place: str
    id: Any
    reason: str
    value: Any = None

    def __str__(self) -> str:
        place = self.place if self.id is None else f"{self.place}/{shown(self.id)}"
        return f"{place}: {self.reason}"


class Rule:
    """One thing that the records of a type have to satisfy. The methods raise PyMongoError."""

    def __init__(self, database: Database, resource: ResourceType) -> None:
        self._database = database
        self._resource = resource
        self._records = database[resource.collection]

    def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield all violations in the snapshot of a session, with constant memory."""
        raise NotImplementedError

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Store what is right, where other data say it; otherwise an operator has to."""


async def scan(
    collection: AsyncIOMotorCollection[Record],
    query: Mapping[str, Any],
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


def shown(value: Any) -> str:
    """Return a stored value, which external writers may have made long, as a part of a line."""
    return reprlib.repr(value)


class CounterIsRight(Rule):
    """Ids are never reused, and totals are exact: the counter agrees with the collection."""

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the violation if the counter is missing or wrong."""
        name = self._resource.type
        found = await self._database[COUNTERS].find_one({ID: name}, session=session)
        stored = IdCounter().fields if found is None else found
        right = await count_records(self._database, self._resource, _last_id(stored), session)
        wrong = [
            f"{field} is {shown(stored.get(field))} instead of {shown(value)}"
            for field, value in right.fields.items()
            if stored.get(field) != value
        ]
        if wrong:
            yield Violation(f"counters/{name}", None, ", ".join(wrong))

    async def repair(self, _: Sequence[Violation]) -> None:
        """Count the collection again, unless a service writes to the counter meanwhile."""
        for _attempt in range(_COUNT_ATTEMPTS):
            query = {ID: self._resource.type}
            stored = await self._database[COUNTERS].find_one(query)
            right = await count_records(self._database, self._resource, _last_id(stored or {}))
            if await store_counter(self._database, self._resource, right, stored):
                return


def _last_id(counter: Mapping[str, Any]) -> int:
    """Return the last id that a counter says was given out, 0 if it is not a number."""
    last = counter.get(LAST)
    return last if isinstance(last, int) else 0


class IndexesAreComplete(Rule):
    """Totals and filters are exact: each index has as many records as the collection itself.

    Only MongoDB maintains indexes: one that is not complete was damaged with the files.
    """

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the indexes that lack records."""
        total = await self._records.count_documents({}, session=session)
        for name, index in (await self._records.index_information()).items():
            if not _PARTIAL.isdisjoint(index):
                continue
            try:
                entries = await self._records.count_documents({}, hint=name, session=session)
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

    Those that were stored without the validator of the collection may not; an operator repairs
    them. Computed attributes that are stored follow from their parts.
    """

    def __init__(
        self,
        database: Database,
        resource: ResourceType,
        names: Iterable[str] = (),
        query: Mapping[str, Any] | None = None,
    ) -> None:
        """names: of the stored fields to check, by default all. query: for the records to check."""
        super().__init__(database, resource)
        self._names = tuple(names or resource.record_attributes)
        self._query = query or {}

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records with a value that MongoDB or a request would refuse, or a wrong one."""
        async for records in scan(self._records, self._query, (ID,), session, self._names):
            for record in records:
                if defect := self.defect(record):
                    yield Violation(self._resource.collection, record[ID], defect)

    def defect(self, record: Record) -> str:
        """Return why a record is not valid; empty if it is."""
        resource = self._resource
        defects = [*invalid_fields(resource, record, self._names).values()]
        for name in self._names:
            attribute = None if name in resource.computed else resource.attributes.get(name)
            if attribute and (reason := _refusal(attribute, record.get(name))):
                defects.append(f"{name} is not valid: {reason}")
        for name, text in () if defects else resource.computed.items():
            if record.get(name) not in {None, text.compute(record)}:
                defects.append(f"{name} does not follow from {', '.join(text.parts)}")
        return "; ".join(defects)

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Compute the fields from the records as they are now; this changes no response."""
        if update := recompute(self._resource):
            await self._records.update_many({ID: {"$in": [one.id for one in violations]}}, update)


class PeriodsAreRight(Rule):
    """Each link has one period in force, no other period is, and a link's periods do not overlap.

    Links that are older than their history get one in the background.
    """

    def __init__(self, database: Database, link: TrackedLink, graph: Graph) -> None:
        super().__init__(database, link.source)
        self._graph = graph
        self._link = link
        self._periods = database[link.periods.collection]

    async def violations(self, session: AsyncIOMotorClientSession) -> AsyncIterator[Violation]:
        """Yield the records whose link has wrong periods, also those of deleted records."""
        is_complete = await is_history_complete(self._database, self._link, session)
        now = datetime.now(UTC)
        async for records, periods in self._by_source(session):
            for id_ in sorted(records.keys() | periods.keys()):
                correct = correction(self._link, records.get(id_, {}), periods[id_], now)
                if correct.reasons and (is_complete or periods[id_]):
                    reason = "; ".join(correct.reasons)
                    yield Violation(self._resource.collection, id_, reason)

    async def _by_source(
        self, session: AsyncIOMotorClientSession
    ) -> AsyncIterator[tuple[dict[int, Record], dict[int, list[Record]]]]:
        """Yield records and periods by the id of the record, for one range of ids after another."""
        link, after = self._link, 0
        fields = (link.link.foreign_key, link.link.period_field)
        async for batch in scan(self._records, {ID: _NUMBERS}, (ID,), session, fields):
            last = batch[-1][ID]
            periods = await self._read_periods({"$gt": after, "$lte": last}, session)
            yield {record[ID]: record for record in batch}, periods
            after = last
        yield {}, await self._read_periods({"$gt": after}, session)

    async def _read_periods(
        self, ids: Any, session: AsyncIOMotorClientSession
    ) -> dict[int, list[Record]]:
        """Return the valid periods of a range of records, by the id of the record."""
        key, by_source = self._link.source_key, defaultdict[int, list[Record]](list)
        query = {"$and": [{key: _NUMBERS}, {key: ids}], **HAS_BOUNDS}
        fields = (SINCE, UNTIL, self._link.target_key)
        async for batch in scan(self._periods, query, (key, ID), session, fields):
            for one in batch:
                by_source[one[key]].append(one)
        return by_source

    async def repair(self, violations: Sequence[Violation]) -> None:
        """Insert, end and remove periods to match the links as they are now."""
        async with open_link_periods(self._database, self._link) as periods:
            await periods.repair([one.id for one in violations if isinstance(one.id, int)])


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
            {"$match": {"found": []}},
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


def _refusal(attribute: ResourceField, value: Any) -> str | None:
    """Return why requests may not set a value, None if they may, or if it is of another type."""
    if not isinstance(value, attribute.stored_type) or value == attribute.stored_null:
        return None
    try:
        attribute.load(attribute.to_json(value))
    except ValidationError as error:
        return " ".join(map(str, error.messages))
    return None
