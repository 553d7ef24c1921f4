"""The check and the repair of stored data.

The service may be writing during a repair, which keeps whatever was written since the snapshot.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import SINCE, UNTIL
from registry.model.record import ID
from registry.model.resource_type import Link, ResourceType
from registry.operations.dangling_links import BATCH_SIZE, dangling_links, unlink
from registry.storage.counters import (
    COUNTERS,
    LAST,
    IdCounter,
    count_records,
    store_counter,
)
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
class Violation:
    """A defect in the stored data.

    place: the record or the counter. reason: what is wrong, in one line. value: what a repair
    needs.
    """

    place: str
    reason: str
    value: Any = None

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that the data have to satisfy.

    violations: yields all in the snapshot of a session, with constant memory. repair: stores what
    is right for some of them; without it, an operator has to.
    """

    violations: Callable[[_Session], AsyncIterator[Violation]]
    repair: Callable[[Sequence[Violation]], Awaitable[object]] | None = None


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
        rules = _rules(database, graph)
        return Report(records, [await _check(rule, session, repair=repair) for rule in rules])


async def _check(rule: Rule, session: _Session, *, repair: bool) -> RuleReport:
    total, listed, batch = 0, list[Violation](), list[Violation]()
    async for violation in rule.violations(session):
        total += 1
        if total <= _MAX_LISTED:
            listed.append(violation)
        if repair and rule.repair:
            batch.append(violation)
            if len(batch) == BATCH_SIZE:
                await rule.repair(batch)
                batch.clear()
    if batch and rule.repair:
        await rule.repair(batch)
    return RuleReport(total, listed)


def _rules(database: Database, graph: Graph) -> Iterator[Rule]:
    for resource in graph.values():
        yield Rule(
            partial(_wrong_counter, database, resource), partial(_count_again, database, resource)
        )
        yield Rule(partial(_unfit, database, resource))
        for link in () if resource.read_only else resource.links:  # periods outlive their targets
            yield Rule(
                partial(_dangling, database, resource, link, graph),
                partial(_unlink, database, resource, link),
            )
    for tracked in tracked_links(graph):
        yield Rule(
            partial(_overlapping, database, tracked), partial(_end_periods, database, tracked)
        )


async def _wrong_counter(
    database: Database, resource: ResourceType, session: _Session
) -> AsyncIterator[Violation]:
    """Yield the violation if the counter does not agree with the collection."""
    found = await database[COUNTERS].find_one({ID: resource.type}, session=session)
    stored = IdCounter().fields if found is None else found
    right = await count_records(database, resource, stored.get(LAST, 0), session)
    wrong = [
        f"{name} is {stored.get(name)} instead of {value}"
        for name, value in right.fields.items()
        if stored.get(name) != value
    ]
    if wrong:
        yield Violation(f"{COUNTERS}/{resource.type}", ", ".join(wrong))


async def _count_again(database: Database, resource: ResourceType, _: Sequence[Violation]) -> None:
    """Count the collection, unless a service writes to the counter each time meanwhile."""
    for _attempt in range(_ATTEMPTS):
        stored = await database[COUNTERS].find_one({ID: resource.type})
        right = await count_records(database, resource, (stored or {}).get(LAST, 0))
        if await store_counter(database, resource, right, stored):
            return


async def _unfit(
    database: Database, resource: ResourceType, session: _Session
) -> AsyncIterator[Violation]:
    """Yield the records that the validator of the collection would refuse."""
    async for id_, names in misfits(database[resource.collection], resource, session):
        yield Violation(f"{resource.collection}/{id_}", f"{names} does not fit the type")


async def _dangling(
    database: Database, resource: ResourceType, link: Link, graph: Graph, session: _Session
) -> AsyncIterator[Violation]:
    """Yield the records whose link leads to nothing."""
    async for dangling in dangling_links(database, resource, link, graph, session):
        reason = f"{link.name} is {dangling.target}, a {link.target} that does not exist"
        yield Violation(f"{resource.collection}/{dangling.source}", reason, dangling)


async def _unlink(
    database: Database, resource: ResourceType, link: Link, violations: Sequence[Violation]
) -> None:
    await unlink(database, resource, link, [violation.value for violation in violations])


async def _overlapping(
    database: Database, tracked: TrackedLink, session: _Session
) -> AsyncIterator[Violation]:
    """Yield the periods that have not ended when the next one of the same link begins."""
    following = {"$shift": {"by": 1, "output": {ID: f"${ID}", SINCE: f"${SINCE}"}}}
    stages: list[Stage] = [
        {
            "$setWindowFields": {
                "partitionBy": f"${tracked.source_key}",
                "sortBy": {SINCE: 1, ID: 1},
                "output": {"next": following},
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
        reason = f"{tracked.periods.type} {period[ID]} overlaps {period['next'][ID]}"
        place = f"{tracked.source.collection}/{period[tracked.source_key]}"
        yield Violation(place, reason, (period[ID], period["next"][SINCE]))


async def _end_periods(
    database: Database, tracked: TrackedLink, violations: Sequence[Violation]
) -> None:
    periods = database[tracked.periods.collection]
    for violation in violations:
        id_, end = violation.value
        is_later = {"$or": [{UNTIL: None}, {UNTIL: {"$gt": end}}]}
        await periods.update_one({ID: id_, **is_later}, {"$set": {UNTIL: end}})
