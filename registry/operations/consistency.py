"""The check and the repair of stored data.

The service may be writing during a repair, which keeps whatever was written since the snapshot.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import SINCE, UNTIL
from registry.model.record import ID
from registry.model.resource_type import Link, ResourceType
from registry.operations.dangling_links import dangling_links, unlink
from registry.storage.counters import COUNTERS, LAST, IdCounter, count_records, store_counter
from registry.storage.mongo.mongo_client import Database, snapshot_session
from registry.storage.mongo.read_commands import SNAPSHOT_UNAVAILABLE
from registry.storage.records import Stage
from registry.storage.validators import misfits

_MAX_LISTED = 20
"""Violations of one rule that a report lists."""

_ATTEMPTS = 20
"""How often a check begins again because a collection or an index was created during it, and a
repair of a counter that a service changes."""

_PAUSE_SECONDS = 0.1
"""Between attempts: the new collection or index has to be committed."""

_Session: TypeAlias = AsyncIOMotorClientSession


@dataclass(frozen=True, slots=True)
class RuleReport:
    """The violations of one rule: how many there are, and the first of them, each as a line."""

    total: int
    listed: Sequence[str]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check. records: how many there are, by collection."""

    records: Mapping[str, int]
    rules: Sequence[RuleReport]

    @property
    def total(self) -> int:
        """The number of all violations."""
        return sum(rule.total for rule in self.rules)


async def check(database: Database, graph: Graph, *, repair: bool = False) -> Report:
    """Return the violations of all rules at one point in time.

    Clients may write meanwhile, and a service may start: if that creates a collection or an index,
    the check begins again. repair: whether to repair what is found. Raises SnapshotExpired or
    PyMongoError.
    """
    if repair:  # it cannot create a collection that the snapshot lacks
        await database[COUNTERS].create_index(ID)
    attempts = _ATTEMPTS
    while True:
        try:
            return await _check_all(database, graph, repair=repair)
        except OperationFailure as error:
            attempts -= 1
            if error.code != SNAPSHOT_UNAVAILABLE or not attempts:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


async def _check_all(database: Database, graph: Graph, *, repair: bool) -> Report:
    async with snapshot_session(database) as session:
        records = {
            resource.collection: await database[resource.collection].count_documents(
                {}, session=session
            )
            for resource in graph.values()
        }
        rules = _rules(database, graph, session, repair=repair)
        return Report(records, [await _report(violations) for violations in rules])


async def _report(violations: AsyncIterator[str]) -> RuleReport:
    total, listed = 0, list[str]()
    async for violation in violations:
        total += 1
        if total <= _MAX_LISTED:
            listed.append(violation)
    return RuleReport(total, listed)


def _rules(
    database: Database, graph: Graph, session: _Session, *, repair: bool
) -> Iterator[AsyncIterator[str]]:
    """Yield for each rule what yields its violations in the snapshot of a session.

    If `repair` is set, each rule stores what is right, but for records that an operator has to
    correct.
    """
    for resource in graph.values():
        yield _wrong_counter(database, resource, session, repair=repair)
        yield _unfit(database, resource, session)
        for link in () if resource.read_only else resource.links:  # periods outlive their targets
            yield _dangling(database, resource, link, graph, session, repair=repair)
    for tracked in tracked_links(graph):
        yield _overlapping(database, tracked, session, repair=repair)


async def _wrong_counter(
    database: Database, resource: ResourceType, session: _Session, *, repair: bool
) -> AsyncIterator[str]:
    """Yield a line if the counter does not agree with the collection."""
    found = await database[COUNTERS].find_one({ID: resource.type}, session=session)
    stored = IdCounter().fields if found is None else found
    right = await count_records(database, resource, stored.get(LAST, 0), session)
    wrong = [
        f"{name} is {stored.get(name)} instead of {value}"
        for name, value in right.fields.items()
        if stored.get(name) != value
    ]
    if wrong:
        if repair:
            await _count_again(database, resource)
        yield f"{COUNTERS}/{resource.type}: {', '.join(wrong)}"


async def _count_again(database: Database, resource: ResourceType) -> None:
    """Count the collection, unless a service writes to the counter each time meanwhile."""
    for _attempt in range(_ATTEMPTS):
        stored = await database[COUNTERS].find_one({ID: resource.type})
        right = await count_records(database, resource, (stored or {}).get(LAST, 0))
        if await store_counter(database, resource, right, stored):
            return


async def _unfit(
    database: Database, resource: ResourceType, session: _Session
) -> AsyncIterator[str]:
    """Yield the records that the validator of the collection would refuse."""
    async for id_, names in misfits(database[resource.collection], resource, session):
        yield f"{resource.collection}/{id_}: {names} does not fit the type"


async def _dangling(
    database: Database,
    resource: ResourceType,
    link: Link,
    graph: Graph,
    session: _Session,
    *,
    repair: bool,
) -> AsyncIterator[str]:
    """Yield the records whose link leads to nothing."""
    async for dangling in dangling_links(database, resource, link, graph, session):
        if repair:
            await unlink(database, resource, link, dangling)
        for source, target in dangling:
            reason = f"{link.name} is {target}, a {link.target} that does not exist"
            yield f"{resource.collection}/{source}: {reason}"


async def _overlapping(
    database: Database, tracked: TrackedLink, session: _Session, *, repair: bool
) -> AsyncIterator[str]:
    """Yield the periods that have not ended when the next one of the same link begins."""
    shift = {"by": 1, "output": {ID: f"${ID}", SINCE: f"${SINCE}"}}
    stages: list[Stage] = [
        {
            "$setWindowFields": {
                "partitionBy": f"${tracked.source_key}",
                "sortBy": {SINCE: 1, ID: 1},
                "output": {"next": {"$shift": shift}},
            }
        },
        {
            "$match": {
                "next": {"$ne": None},
                "$or": [{UNTIL: None}, {"$expr": {"$gt": [f"${UNTIL}", f"$next.{SINCE}"]}}],
            }
        },
    ]
    periods = database[tracked.periods.collection]
    async for period in periods.aggregate(stages, session=session, allowDiskUse=True):
        following = period["next"]
        if repair:
            end = following[SINCE]
            is_later = {"$or": [{UNTIL: None}, {UNTIL: {"$gt": end}}]}
            await periods.update_one({ID: period[ID], **is_later}, {"$set": {UNTIL: end}})
        place = f"{tracked.source.collection}/{period[tracked.source_key]}"
        yield f"{place}: {tracked.periods.type} {period[ID]} overlaps {following[ID]}"
