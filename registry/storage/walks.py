"""Steps along the ids of a collection, which requests in flight take together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from motor.motor_asyncio import AsyncIOMotorCollection, AsyncIOMotorDatabase

from registry.resource import Graph, Record, Resource
from registry.storage.queries import find_all
from registry.storage.records import Stage, only
from registry.storage.sharing import Shared

_STEPS_A_TRIP = 16
"""Queries that leave together; what more of them find no longer fits in a processor's cache."""

_TRIPS = 2
"""While the service puts the pages of one together, the database finds those of another."""

_STEP = "_step"
"""The field that tells of a record in which step it was found."""


@dataclass(frozen=True, slots=True)
class Step:
    """The records that fulfil a condition on the id, as many as are wanted, in this direction.

    columns: the stored fields to find of each.
    """

    condition: Mapping[str, Any]
    direction: int
    most: int
    columns: tuple[str, ...]

    def options(self) -> dict[str, Any]:
        """Return the options of the command that finds the records."""
        return {
            "filter": self.condition,
            "sort": {"_id": self.direction},
            "limit": self.most,
            "projection": only(self.columns),
            "batchSize": self.most + 1,  # so that the cursor is at its end with the first batch
        }

    def stages(self, number: int) -> list[Stage]:
        """Return the pipeline that finds the records, and numbers them as those of this step."""
        return [
            {"$match": self.condition},
            {"$sort": {"_id": self.direction}},
            {"$limit": self.most},
            {"$project": {**only(self.columns), _STEP: {"$literal": number}}},
        ]


class Walks:
    """The steps in the collections of one database."""

    def __init__(self, database: AsyncIOMotorDatabase[dict[str, Any]], graph: Graph) -> None:
        self._shared = {
            resource.type: Shared[Step, list[Record]](
                partial(_find_each, database[resource.collection]),
                most=_STEPS_A_TRIP,
                trips=_TRIPS,
            )
            for resource in graph.values()
        }

    async def find(self, resource: Resource, step: Step) -> list[Record]:
        """Return the records of a step, in its direction. Raises PyMongoError."""
        return await self._shared[resource.type].ask(step)


async def _find_each(
    collection: AsyncIOMotorCollection[Record], asked: Sequence[Step]
) -> Sequence[list[Record]]:
    if len(asked) == 1:
        return [await find_all(collection, "find", asked[0].options())]
    first, *others = (step.stages(number) for number, step in enumerate(asked))
    joined = [{"$unionWith": {"coll": collection.name, "pipeline": one}} for one in others]
    most = sum(step.most for step in asked)
    union = {"pipeline": [*first, *joined], "cursor": {"batchSize": most + 1}}
    found: list[list[Record]] = [[] for _ in asked]
    for record in await find_all(collection, "aggregate", union):
        found[record.pop(_STEP)].append(record)
    return found
