"""The check and the repair of stored data. All functions may raise PyMongoError.

The service may be writing during a repair, which keeps whatever was written since the snapshot.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import SINCE, UNTIL
from registry.model.record import ID, VERSION
from registry.model.resource_type import Link, ResourceType
from registry.storage.counters import COUNTERS, LAST, IdCounter, count_records, recount
from registry.storage.member_counts import wrong_counts
from registry.storage.mongo.mongo_client import Database, snapshot_session
from registry.storage.mongo.read_commands import SNAPSHOT_UNAVAILABLE
from registry.storage.records import NEXT_VERSION, Stage
from registry.storage.validators import misfits

_MAX_LISTED = 20
"""Violations of one rule that a report lists."""

_ATTEMPTS = 20
"""How often a check begins again because a collection or an index was created during it, and a
repair of a counter that a service changes."""

_PAUSE_SECONDS = 0.1
"""Between attempts: the new collection or index has to be committed."""

_MAX_UNLINKED = 1_000
"""Links per command that removes them."""


@dataclass(frozen=True, slots=True)
class Report:
    """How many records there are by collection, how many violations, and the first of each rule."""

    records: Mapping[str, int]
    total: int
    lines: Sequence[str]


async def check(database: Database, graph: Graph, *, repair: bool = False) -> Report:
    """Return the violations of all rules at one point in time.

    Clients may write meanwhile, and a service may start: if that creates a collection or an index,
    the check begins again. repair: whether to repair what is found, but for records that do not
    fit, which an operator has to correct. Raises SnapshotExpired.
    """
    if repair:  # it cannot create a collection that the snapshot lacks
        await database[COUNTERS].create_index(ID)
    attempts = _ATTEMPTS
    while True:
        try:
            async with snapshot_session(database) as session:
                return await _Check(database, graph, session, repair).report()
        except OperationFailure as error:
            attempts -= 1
            if error.code != SNAPSHOT_UNAVAILABLE or not attempts:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class _Check:
    """A check in the snapshot of a session; each rule yields its violations, as lines."""

    database: Database
    graph: Graph
    session: AsyncIOMotorClientSession
    repair: bool

    async def report(self) -> Report:
        """Return the violations of all rules."""
        records, total, lines = dict[str, int](), 0, list[str]()
        for name in (resource.collection for resource in self.graph.values()):
            records[name] = await self.database[name].count_documents({}, session=self.session)
        for violations in self._rules():
            number = 0
            async for line in violations:
                number += 1
                if number <= _MAX_LISTED:
                    lines.append(line)
            if number > _MAX_LISTED:
                lines.append(f"... and {number - _MAX_LISTED:,} more of this kind")
            total += number
        return Report(records, total, lines)

    def _rules(self) -> Iterator[AsyncIterator[str]]:
        for resource in self.graph.values():
            yield self._wrong_counter(resource)
            yield self._unfit(resource)
            yield from (self._miscounted(resource, name) for name in resource.count_fields)
        for resource in self.graph.writable:  # periods outlive their targets
            for link in resource.links:
                yield self._dangling(resource, link)
        yield from map(self._overlapping, tracked_links(self.graph))

    async def _wrong_counter(self, resource: ResourceType) -> AsyncIterator[str]:
        """Yield a line if the counter does not agree with the collection."""
        counters, query = self.database[COUNTERS], {ID: resource.type}
        stored = await counters.find_one(query, session=self.session) or IdCounter().fields
        right = await count_records(self.database, resource, stored.get(LAST, 0), self.session)
        compared = right.fields if resource.subject is None else {LAST: right.last}  # some expire
        wrong = [
            f"{name} is {stored.get(name)} instead of {value}"
            for name, value in compared.items()
            if stored.get(name) != value
        ]
        if wrong:
            attempts = _ATTEMPTS if self.repair else 0
            while attempts and not await recount(self.database, resource):
                attempts -= 1
            yield f"{COUNTERS}/{resource.type}: {', '.join(wrong)}"

    async def _unfit(self, resource: ResourceType) -> AsyncIterator[str]:
        """Yield the records that the validator of the collection would refuse."""
        async for id_, names in misfits(self.database[resource.collection], resource, self.session):
            yield f"{resource.collection}/{id_}: {names} does not fit the type"

    async def _miscounted(self, resource: ResourceType, name: str) -> AsyncIterator[str]:
        """Yield the records that have another number of members of a relationship stored."""
        records = self.database[resource.collection]
        stages = wrong_counts(self.graph, resource, name)
        async for wrong in records.aggregate(stages, session=self.session, allowDiskUse=True):
            if self.repair:
                # Writes since the snapshot have changed both numbers alike.
                difference = {resource.count_fields[name]: wrong["members"] - wrong["stored"]}
                await records.update_one({ID: wrong[ID]}, {"$inc": difference})
            numbers = f"{wrong['stored']} instead of {wrong['members']}"
            yield f"{resource.collection}/{wrong[ID]}: the number of {name} is {numbers}"

    async def _dangling(self, resource: ResourceType, link: Link) -> AsyncIterator[str]:
        """Yield the records whose link leads to nothing."""
        found = dangling_links(self.database, resource, link, self.graph, self.session)
        async for dangling in found:
            if self.repair:
                await unlink(self.database, resource, link, dangling)
            for source, target in dangling.items():
                reason = f"{link.name} is {target}, a {link.target} that does not exist"
                yield f"{resource.collection}/{source}: {reason}"

    async def _overlapping(self, tracked: TrackedLink) -> AsyncIterator[str]:
        """Yield the periods that have not ended when the next one of the same link begins."""
        following = {"$shift": {"by": 1, "output": {ID: f"${ID}", SINCE: f"${SINCE}"}}}
        partition = {"partitionBy": f"${tracked.source_key}", "sortBy": {SINCE: 1, ID: 1}}
        is_later = {"$expr": {"$gt": [f"${UNTIL}", f"$next.{SINCE}"]}}
        stages: list[Stage] = [
            {"$setWindowFields": {**partition, "output": {"next": following}}},
            {"$match": {"next": {"$ne": None}, "$or": [{UNTIL: None}, is_later]}},
        ]
        periods = self.database[tracked.periods.collection]
        async for period in periods.aggregate(stages, session=self.session, allowDiskUse=True):
            end = period["next"][SINCE]
            if self.repair:
                unended = {ID: period[ID], UNTIL: {"$not": {"$lte": end}}}
                await periods.update_one(unended, {"$set": {UNTIL: end}})
            place = f"{tracked.source.collection}/{period[tracked.source_key]}"
            yield f"{place}: {tracked.periods.type} {period[ID]} overlaps {period['next'][ID]}"


async def dangling_links(
    database: Database,
    resource: ResourceType,
    link: Link,
    graph: Graph,
    session: AsyncIOMotorClientSession | None = None,
) -> AsyncIterator[Mapping[Any, Any]]:
    """Yield the links that lead to nothing, in parts: the id in the link by that of its record."""
    key, targets = link.foreign_key, graph[link.target].collection
    stages: list[Stage] = [
        {"$match": {key: {"$ne": None}}},
        {"$lookup": {"from": targets, "localField": key, "foreignField": ID, "as": "found"}},
        {"$match": {"found": []}},
        {"$sort": {key: 1, ID: 1}},
        {"$project": {key: True}},
    ]
    collection = database[resource.collection]
    cursor = collection.aggregate(stages, session=session, allowDiskUse=True)
    while records := await cursor.to_list(_MAX_UNLINKED):
        yield {record[ID]: record[key] for record in records}


async def unlink(
    database: Database, resource: ResourceType, link: Link, dangling: Mapping[Any, Any]
) -> None:
    """Remove the links that have not been changed since, as deletions of the targets would have."""
    sources, targets = {"$in": [*dangling]}, {"$in": [*dangling.values()]}
    fields: Stage = {link.foreign_key: None, VERSION: NEXT_VERSION}
    if link.history:
        fields |= {link.period_field: None, link.changed_field: "$$NOW"}
        periods = {resource.type: sources, link.name: targets, UNTIL: None}
        await database[link.history.collection].update_many(periods, [{"$set": {UNTIL: "$$NOW"}}])
    query = {ID: sources, link.foreign_key: targets}
    await database[resource.collection].update_many(query, [{"$set": fields}])
