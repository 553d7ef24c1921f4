"""The check and the repair of stored data, and what histories keep of deleted resources."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.model.graph import Graph, tracked_links
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.operations.rules import (
    CounterIsRight,
    IndexesAreComplete,
    PeriodsAreRight,
    RecordsAreValid,
    Rule,
    TargetsExist,
    Violation,
)
from registry.storage.mongo.mongo_client import Database, snapshot_session
from registry.storage.mongo.read_commands import SNAPSHOT_UNAVAILABLE

_MAX_LISTED = 20
"""Violations of one rule that a report lists."""

_REPAIR_SIZE = 1_000
"""Violations per command that repairs them."""

_ATTEMPTS = 20
"""How often a check begins again because a collection or an index was created during it."""

_PAUSE_SECONDS = 0.1
"""Between attempts: the new collection or index has to be committed."""


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
    if repair:  # it cannot create a collection that the snapshot lacks
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
            one.collection: await database[one.collection].count_documents({}, session=session)
            for one in graph.values()
        }
        checked = rules or _rules(database, graph)
        return Report(records, [await _check(rule, session, repair=repair) for rule in checked])


async def _check(rule: Rule, session: AsyncIOMotorClientSession, *, repair: bool) -> RuleReport:
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


def _rules(database: Database, graph: Graph) -> Iterator[Rule]:
    for resource in graph.values():
        yield CounterIsRight(database, resource)
        yield IndexesAreComplete(database, resource)
        yield RecordsAreValid(database, resource)
        for link in () if resource.read_only else resource.links:  # periods outlive their targets
            yield TargetsExist(database, resource, link, graph)
        for tracked in tracked_links(graph):
            if tracked.source is resource:
                yield PeriodsAreRight(database, tracked, graph)


async def forget(
    database: Database, graph: Graph, resource: ResourceType, id_: int
) -> dict[ResourceType, int] | None:
    """Remove what periods have copied from a deleted resource.

    Return how many were changed, by their type; None, and change nothing, if the resource exists.
    Raises PyMongoError.
    """
    if await database[resource.collection].find_one({ID: id_}, {ID: True}):
        return None
    changed: dict[ResourceType, int] = {}
    for link in tracked_links(graph):
        for key, end in ((link.source_key, link.source), (link.target_key, link.target)):
            copies = [name for name, one in link.periods.copies.items() if one.end == key]
            if end.type == resource.type and copies:
                query: Record = {key: id_, "$or": [{name: {"$ne": None}} for name in copies]}
                update = {"$unset": dict.fromkeys(copies, True)}
                done = await database[link.periods.collection].update_many(query, update)
                changed[link.periods] = changed.get(link.periods, 0) + done.modified_count
    return changed
