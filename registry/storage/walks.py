"""Steps along the ids of a collection, which requests in flight take together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from motor.motor_asyncio import AsyncIOMotorCollection, AsyncIOMotorDatabase

from registry.resource import Graph, Record, Resource
from registry.storage.records import Stage, only
from registry.storage.sharing import Shared

_STEPS_A_TRIP = 32
"""Queries that leave together; more save little."""

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
        (step,) = asked
        cursor = collection.find(
            step.condition,
            only(step.columns),
            sort=[("_id", step.direction)],
            limit=step.most,
            batch_size=step.most + 1,  # so that the first batch is the last one too
        )
        return [await cursor.to_list(None)]
    first, *others = (step.stages(number) for number, step in enumerate(asked))
    joined = [{"$unionWith": {"coll": collection.name, "pipeline": one}} for one in others]
    found: list[list[Record]] = [[] for _ in asked]
    most = sum(step.most for step in asked)
    union = collection.aggregate([*first, *joined], batchSize=most + 1)
    for record in await union.to_list(None):
        found[record.pop(_STEP)].append(record)
    return found
