"""Links that lead to nothing: how they are found, and removed."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.graph import Graph
from registry.model.implicit_attributes import UNTIL
from registry.model.record import ID, VERSION
from registry.model.resource_type import Link, ResourceType
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import NEXT_VERSION, Stage

_BATCH_SIZE = 1_000
"""Links per command that removes them."""


DanglingLinks: TypeAlias = Sequence[tuple[Any, Any]]
"""The id of each record, and the id in its link, which no target has."""


def linked(resource: ResourceType) -> Sequence[Link]:
    """Return the links of a type that must not dangle: periods outlive their targets."""
    return () if resource.read_only else resource.links


async def dangling_links(
    database: Database,
    resource: ResourceType,
    link: Link,
    graph: Graph,
    session: AsyncIOMotorClientSession | None = None,
) -> AsyncIterator[DanglingLinks]:
    """Yield those of all resources of a type, by ascending target, in lists for `unlink`.

    Raises PyMongoError.
    """
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
    while records := await cursor.to_list(_BATCH_SIZE):
        yield [(record[ID], record[key]) for record in records]


async def unlink(
    database: Database, resource: ResourceType, link: Link, dangling: DanglingLinks
) -> None:
    """Remove the links that have not been changed since, as deletions of the targets would have.

    Raises PyMongoError.
    """
    sources, targets = ({"$in": ids} for ids in zip(*dangling, strict=True))
    fields: Stage = {link.foreign_key: None, VERSION: NEXT_VERSION}
    if link.history:
        fields |= {link.period_field: None, link.changed_field: "$$NOW"}
        periods = {resource.type: sources, link.name: targets, UNTIL: None}
        await database[link.history.collection].update_many(periods, [{"$set": {UNTIL: "$$NOW"}}])
    query = {ID: sources, link.foreign_key: targets}
    await database[resource.collection].update_many(query, [{"$set": fields}])
