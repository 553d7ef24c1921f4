"""Counts of members: how many resources each to-many relationship of a resource has.

A record stores them in the fields that `ResourceType.count_fields` names; one without such a field
has no members. The transaction that changes a link changes the counts of its targets
(`writes/identity_map.py`), and increments the versions of both ends.
"""

import logging
from collections.abc import Iterable

from registry.model.graph import Graph
from registry.model.record import ID, VERSION
from registry.model.resource_type import ResourceType
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import Stage, record_schema

_log = logging.getLogger("registry")


def wrong_counts(graph: Graph, resource: ResourceType, name: str) -> list[Stage]:
    """Return the stages that find the records of a type with a wrong count of a relationship.

    They yield the id and the version of each, the number `stored`, and the number of `members`.
    MongoDB reads the versions before it counts the members. Records that do not fit their type are
    left out.
    """
    relationship = resource.relationships[name]
    key = relationship.foreign_key
    stored = {"$ifNull": [f"${relationship.count_field}", 0]}
    members: list[Stage] = [
        {"$match": {key: {"$ne": None}}},
        {"$group": {ID: f"${key}", "members": {"$sum": 1}}},
    ]
    both: Stage = {
        ID: f"${ID}",
        VERSION: {"$max": f"${VERSION}"},
        "stored": {"$max": "$stored"},
        "members": {"$sum": "$members"},
    }
    return [
        {"$match": {"$jsonSchema": record_schema(resource)}},
        {"$project": {VERSION: True, "stored": stored}},
        {"$unionWith": {"coll": graph[relationship.target].collection, "pipeline": members}},
        {"$group": both},
        {"$match": {VERSION: {"$ne": None}, "$expr": {"$ne": ["$stored", "$members"]}}},
    ]


async def recount_members(
    database: Database, graph: Graph, resource: ResourceType, names: Iterable[str]
) -> None:
    """Correct the counts of relationships of a type. Raises PyMongoError.

    Services may write meanwhile, and other processes may recount. If a record has another version
    by now, its members may have changed, so it keeps its count.
    """
    for name in names:
        _log.info("Counting the %s of %s", name, resource.collection)
        field = resource.count_fields[name]
        is_same = {"$eq": [f"${VERSION}", f"$$new.{VERSION}"]}
        corrected = {"$cond": [is_same, "$$new.members", f"${field}"]}
        merge: Stage = {
            "into": resource.collection,
            "whenMatched": [{"$set": {field: corrected}}],
            "whenNotMatched": "discard",
        }
        stages = [*wrong_counts(graph, resource, name), {"$merge": merge}]
        await database[resource.collection].aggregate(stages, allowDiskUse=True).to_list(None)
