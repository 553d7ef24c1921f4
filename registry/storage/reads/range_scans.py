"""Steps along the ids of a collection, which requests in flight take together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson.int64 import Int64

from registry.model.graph import Graph
from registry.model.record import MAX_ID, Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.commands import Commands
from registry.storage.projections import only
from registry.storage.reads.filter_queries import all_of
from registry.storage.records import Stage

_MAX_BATCH_SIZE = 12
"""Queries that leave together; what more of them find no longer fits in a processor's cache."""

_MAX_IN_FLIGHT = 3
"""While the service puts the pages of one together, the database finds those of others."""

_STEP = "_step"
"""The field that tells of a record in which step it was found."""

_NO_RUN = range(0)


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """The records that fulfil all conditions on the id, as many as are wanted, in this direction.

    columns: the stored fields to find of each.
    """

    conditions: Sequence[Mapping[str, Any]]
    direction: int
    most: int
    columns: tuple[str, ...]

    @property
    def run(self) -> range:
        """The ids of the records if none is missing between them; empty if that cannot be told."""
        match self.conditions:
            case [{"_id": {"$gt": int(start), **others}}] if not others:
                found = range(start + 1, start + 1 + self.most)
            case [{"_id": {"$lt": int(start), **others}}] if not others:
                found = range(start - 1, start - 1 - self.most, -1)
            case _:
                return _NO_RUN
        return found if abs(found[0]) <= MAX_ID >= abs(found[-1]) else _NO_RUN

    def options(self) -> dict[str, Any]:
        """Return the options of the command that finds the records."""
        return {
            "filter": all_of(self.conditions),
            "sort": {"_id": self.direction},
            "limit": self.most,
            "projection": only(self.columns),
            "batchSize": self.most + 1,  # so that the cursor is at its end with the first batch
        }

    def stages(self, number: int) -> list[Stage]:
        """Return the pipeline that finds the records, and numbers them as those of this step."""
        return [
            {"$match": all_of(self.conditions)},
            {"$sort": {"_id": self.direction}},
            {"$limit": self.most},
            {"$project": {**only(self.columns), _STEP: {"$literal": number}}},
        ]


class RangeScans:
    """The steps in the collections of one database."""

    def __init__(self, commands: Commands, graph: Graph) -> None:
        self._range_scans = {
            one.type: _CollectionScans(commands, one.collection) for one in graph.values()
        }

    async def find(self, resource: Resource, step: RangeQuery) -> list[Record]:
        """Return the records of a step, in its direction. Raises PyMongoError.

        They are those of other requests too: nobody may change them, and they may have more fields.
        """
        return await self._range_scans[resource.type].shared.load(step)


class _CollectionScans:
    """The steps in one collection."""

    def __init__(self, commands: Commands, collection: str) -> None:
        self.shared = Batcher[RangeQuery, list[Record]](
            self._find_each, max_batch_size=_MAX_BATCH_SIZE, max_in_flight=_MAX_IN_FLIGHT
        )
        self._commands = commands
        self._collection = collection
        self._are_runs = True  # as long as few records are deleted

    async def _find_each(self, asked: Sequence[RangeQuery]) -> Sequence[list[Record]]:
        if len(asked) == 1:
            return [await self._find("find", asked[0].options())]
        runs = [step.run for step in asked]
        found: list[list[Record]] = [[] for _ in asked]
        if self._are_runs and any(runs):
            found = await self._find_runs(asked, runs)
        left = [place for place, run in enumerate(runs) if not _is_run(found[place], run)]
        if left:
            others = await self._find_steps([asked[place] for place in left])
            for place, records in zip(left, others, strict=True):
                found[place] = records
        self._are_runs = 2 * sum(map(_is_run, found, runs)) > len(asked)
        return found

    async def _find_runs(
        self, asked: Sequence[RangeQuery], runs: Sequence[range]
    ) -> list[list[Record]]:
        """Return the records that have the ids of each run.

        As ranges of ids they take MongoDB half as long to find.
        """
        ranges = [
            {"_id": {"$gte": min(run[0], run[-1]), "$lte": max(run[0], run[-1])}}
            for run in runs
            if run
        ]
        options = {
            "filter": {"$or": ranges},
            "projection": only({column for step in asked for column in step.columns}),
            "batchSize": sum(map(len, runs)) + 1,
        }
        records = await self._find("find", options)
        known = {record["_id"]: record for record in records}
        if not set(map(type, known)) <= {int, Int64}:  # what lies between them has its place too
            return [[] for _ in asked]
        return [list(filter(None, map(known.get, run))) for run in runs]

    async def _find_steps(self, asked: Sequence[RangeQuery]) -> list[list[Record]]:
        first, *others = (step.stages(number) for number, step in enumerate(asked))
        joined = [{"$unionWith": {"coll": self._collection, "pipeline": one}} for one in others]
        most = sum(step.most for step in asked)
        options = {"pipeline": [*first, *joined], "cursor": {"batchSize": most + 1}}
        found: list[list[Record]] = [[] for _ in asked]
        for record in await self._find("aggregate", options):
            found[record.pop(_STEP)].append(record)
        return found

    async def _find(self, command: str, options: Mapping[str, Any]) -> list[Record]:
        return await self._commands.find_all(self._collection, command, options)


def _is_run(records: Sequence[Record], run: range) -> bool:
    """Whether these are all that are wanted, and no id is missing between them."""
    return bool(run) and len(records) == len(run) and records[-1]["_id"] == run[-1]
