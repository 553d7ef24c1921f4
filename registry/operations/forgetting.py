"""Forgetting what histories keep of deleted resources."""

from registry.model.graph import Graph, tracked_links
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.storage.mongo.mongo_client import Database


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
            copies = [name for name, copy in link.periods.copies.items() if copy.end == key]
            if end.type == resource.type and copies:
                query: Record = {key: id_, "$or": [{name: {"$ne": None}} for name in copies]}
                update = {"$unset": dict.fromkeys(copies, True)}
                done = await database[link.periods.collection].update_many(query, update)
                changed[link.periods] = changed.get(link.periods, 0) + done.modified_count
    return changed
