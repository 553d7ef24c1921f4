"""Forgetting what histories and revisions keep of deleted resources."""

from registry.model.graph import Graph, tracked_links
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.model.revisions import AFTER, BEFORE
from registry.storage.mongo.mongo_client import Database


async def forget(
    database: Database, graph: Graph, resource: ResourceType, id_: int
) -> dict[ResourceType, int] | None:
    """Remove what periods have copied from a deleted resource, and the values in its revisions.

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
    revisions = graph.revisions
    for own in revisions.links if revisions else ():
        if revisions and own.target == resource.type:
            query = {own.foreign_key: id_, "$or": [{BEFORE: {"$ne": {}}}, {AFTER: {"$ne": {}}}]}
            values: Record = {"$set": {BEFORE: {}, AFTER: {}}}
            done = await database[revisions.collection].update_many(query, values)
            changed[revisions] = done.modified_count
    return changed
