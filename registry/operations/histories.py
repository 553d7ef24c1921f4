"""Histories of links: the rule that their periods have to satisfy, and what they forget."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.graph import Graph
from registry.model.history import TrackedLink, tracked_links
from registry.model.period import SINCE, UNTIL
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.operations.rule import Rule, Violation, scan
from registry.storage import (
    HAS_BOUNDS,
    Database,
    correction,
    is_history_complete,
    open_link_periods,
)

_NUMBERS = {"$type": ["int", "long"]}


class PeriodsAreRight(Rule):
    """Each link has one period in force, no other period is, and those of one link do not overlap.

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
        """Insert, end and remove periods as the links are now."""
        async with open_link_periods(self._database, self._graph, self._link) as periods:
            await periods.repair([one.id for one in violations if isinstance(one.id, int)])


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
