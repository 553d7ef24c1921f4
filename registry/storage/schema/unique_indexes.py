"""The indexes of unique attributes.

They are partial, so that null and missing values are not compared. Those of attributes that ignore
case have a collation; filters, which do not ignore it, use other indexes.
"""

import datetime
import decimal
import json
import logging
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pymongo
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure

from registry.model.attributes import Attribute
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.program import StartError
from registry.storage.errors import DUPLICATE_KEY
from registry.storage.mongo.mongo_client import Database
from registry.storage.schema.indexes import (
    BUILD_SECONDS,
    build_indexes,
    complete_indexes,
    drop_index,
)

_log = logging.getLogger("registry")

_PREFIX = "unique_"
"""The prefix of the names of these indexes; no other index has it."""

_IGNORING_CASE = {"locale": "en", "strength": 2}
"""The collation in which letters that differ in case alone are equal."""

_COMPARED_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "bool",
    int: "number",
    decimal.Decimal: "number",
    datetime.datetime: "date",
}
"""The type in a partial filter, which covers all numeric types, by the type in Python."""

_MAX_VALUES, _MAX_IDS, _MAX_CHARACTERS = 10, 5, 80
"""The duplicate values, the ids of each, and the characters of a value in a description."""


class UniqueIndexes:
    """The unique indexes of all types."""

    def __init__(self, database: Database, graph: Graph) -> None:
        self._database = database
        self._graph = graph

    async def prepare(self) -> None:
        """Create the missing indexes, and drop those of attributes that are no longer unique.

        Raises StartError with the values that several records have, or with the reason why MongoDB
        cannot create an index; also PyMongoError.
        """
        refusals = [await self._prepare(resource) for resource in self._graph.values()]
        if any(refusals):
            raise StartError("; ".join(filter(None, refusals)))

    async def _prepare(self, resource: ResourceType) -> str:
        """Prepare the indexes of a type; return why those that are missing cannot be created."""
        collection = self._database[resource.collection]
        names = await collection.index_information()
        existing = {name for name in names if name.startswith(_PREFIX)}
        wanted = {_index_name(*each): each for each in resource.unique_attributes.items()}
        for index_name in sorted(existing - wanted.keys()):
            if await drop_index(collection, index_name):
                text = "Dropped the index %s of %s: the values need not be unique any more"
                _log.warning(text, index_name, resource.collection)
        complete = await complete_indexes(self._database, resource.collection) if wanted else {}
        missing = [each for index_name, each in wanted.items() if index_name not in complete]
        return "; ".join(filter(None, [await self._create(resource, *each) for each in missing]))

    async def _create(self, resource: ResourceType, name: str, attribute: Attribute) -> str:
        """Create an index, and return "", or why it cannot be created."""
        compared, collation = {name: _is_compared(attribute)}, _collation(attribute)
        index = IndexModel(
            [(name, ASCENDING)],
            name=_index_name(name, attribute),
            unique=True,
            partialFilterExpression=compared,
            **collation,
        )
        try:
            await build_indexes(self._database, resource.collection, [index])
        except DuplicateKeyError:
            duplicates = await _describe_duplicates(
                self._database, resource.collection, name, compared, **collation
            )
            values = duplicates or "none any more, start again"
            reason = f"{resource.collection} have these values more than once: {values}"
        except OperationFailure as error:
            reason = f"MongoDB cannot create the index: {(error.details or {}).get('errmsg')}"
        else:
            return ""
        return f"{resource.type}.{name} cannot be unique, as {reason}"


def taken_attribute(error: Mapping[str, Any], resource: ResourceType) -> str | None:
    """Return the attribute whose unique index has rejected a write, None if something else has.

    error: an element of `writeErrors` in the reply to a command. The index may also be one that
    another service has created, or a person.
    """
    if error["code"] == DUPLICATE_KEY and len(error.get("keyPattern", ())) == 1:
        (name,) = error["keyPattern"]
        return name if name in resource.writable else None
    return None


def unique_find(
    name: str, attribute: Attribute, values: Sequence[Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the query and the options of a `find` for the records with values of an attribute."""
    query = {name: {"$in": values, **_is_compared(attribute)}}
    return query, {"hint": _index_name(name, attribute), **_collation(attribute)}


def unique_key(attribute: Attribute, value: Any) -> Hashable:
    """Return what is equal for values that the index of an attribute does not tell apart.

    Letters that differ in more than case can be equal for the index alone.
    """
    if attribute.stored_type is decimal.Decimal:  # else of the driver's class
        return decimal.Decimal(str(value))
    key: Hashable = value.casefold() if attribute.ignores_case else value
    return key


def _index_name(name: str, attribute: Attribute) -> str:
    return f"{_PREFIX}{name}{'_ignoring_case' if attribute.ignores_case else ''}"


def _is_compared(attribute: Attribute) -> dict[str, Any]:
    """Return the condition on values that the index has: those that are not null."""
    return {"$type": _COMPARED_TYPES[attribute.stored_type]}


def _collation(attribute: Attribute) -> dict[str, Any]:
    return {"collation": _IGNORING_CASE} if attribute.ignores_case else {}


async def _describe_duplicates(
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
