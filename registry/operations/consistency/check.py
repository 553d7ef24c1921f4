"""The check of a database against all rules, in one snapshot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.graph import Graph
from registry.operations.consistency.counters import CounterIsAhead
from registry.operations.consistency.derived_fields import DerivedFieldsAreRight
from registry.operations.consistency.indexes import IndexesAreComplete, count
from registry.operations.consistency.links import TargetsExist
from registry.operations.consistency.text_blocks import TextsAreInBlocks
from registry.operations.consistency.violations import Rule, Violation
from registry.storage import Database, searched_names, snapshot_session

_MAX_LISTED = 20
"""Violations of one rule that a report lists."""

_REPAIR_SIZE = 1_000
"""Violations per command that repairs them."""


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
            one.collection: await count(database[one.collection], {"$natural": 1}, session)
            for one in graph.values()
        }
        rules = _rules(database, graph)
        return Report(records, [await _check(rule, session, repair=repair) for rule in rules])


def _rules(database: Database, graph: Graph) -> Iterator[Rule]:
    for resource in graph.values():
        yield CounterIsAhead(database, resource)
        yield IndexesAreComplete(database, resource)
        yield DerivedFieldsAreRight(database, resource)
        for link in resource.links:
            yield TargetsExist(database, graph, resource, link)
        if searched_names(resource):
            yield TextsAreInBlocks(database, resource)


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
