"""Duplicates: the values of an attribute that several records have."""

import json
from collections.abc import Mapping
from typing import Any

import pymongo

from registry.storage.mongo.mongo_client import Database
from registry.storage.schema.index_builds import BUILD_SECONDS

_MAX_VALUES, _MAX_IDS, _MAX_CHARACTERS = 10, 5, 80
"""The duplicate values, the ids of each, and the characters of a value in a description."""


async def describe_duplicates(
    database: Database, collection: str, field: str, query: Mapping[str, Any], **options: Any
) -> str:
    """Return the values of a field that several records have, with the ids of these records.

    query: for the records to compare. options: those of the aggregation. The description has the
    first values and the number of the others; it is empty if there are none. Raises PyMongoError.
    """
    smallest = {"$minN": {"input": "$_id", "n": _MAX_IDS}}
    stages: list[dict[str, Any]] = [
        {"$match": query},
        {"$group": {"_id": f"${field}", "count": {"$sum": 1}, "ids": smallest}},
        {"$match": {"count": {"$gt": 1}}},
        {
            "$facet": {
                "values": [{"$sort": {"_id": 1}}, {"$limit": _MAX_VALUES}],
                "total": [{"$count": "count"}],
            }
        },
    ]
    with pymongo.timeout(BUILD_SECONDS):
        found = database[collection].aggregate(stages, allowDiskUse=True, **options)
        (duplicates,) = await found.to_list(None)
    texts = [_describe(one["_id"], one["ids"], one["count"]) for one in duplicates["values"]]
    others = sum(one["count"] for one in duplicates["total"]) - len(texts)
    return ", ".join([*texts, f"{others} more"] if others else texts)


def _describe(value: Any, ids: list[Any], count: int) -> str:
    text = str(value)
    shown = text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
    others = f" and {count - len(ids)} more" if count > len(ids) else ""
    # As JSON, so that control characters do not break the line.
    return f"{json.dumps(shown, ensure_ascii=False)} (ids {', '.join(map(str, ids))}{others})"
