"""Indexes, also unique ones.

Those of small collections are built before the service is ready, those of others while it serves.

Unique indexes are partial, so that null and missing values are not compared. Those of attributes
that ignore case have a collation; filters, which do not ignore it, use other indexes. All functions
raise PyMongoError.
"""

import asyncio
import datetime
import decimal
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pymongo
from motor.motor_asyncio import AsyncIOMotorCollection
from pymongo import ASCENDING, IndexModel
from pymongo.errors import ConnectionFailure, DuplicateKeyError, OperationFailure

from registry.capacity import Capacity
from registry.jsonapi.error_objects import RequestError
from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_field import ResourceField
from registry.model.resource_type import ResourceType
from registry.model.revisions import AT
from registry.program import StartError
from registry.storage.errors import translated_errors
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.records import Stage

_log = logging.getLogger("registry")

_BUILD_SECONDS = 86_400.0
"""The time limit of a build, instead of that of the connection."""

_INDEX_NOT_FOUND = 27
"""MongoDB's error code."""

_INDEX_OPTIONS_CONFLICT = 85
"""MongoDB's error code."""

_PREFIX = "unique_"
"""The prefix of the names of unique indexes; no other index has it."""

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


class IndexBuilds:
    """Builds missing indexes. unindexed: gets the types whose indexes are not complete yet."""

    def __init__(
        self, database: Database, graph: Graph, capacity: Capacity, unindexed: set[str]
    ) -> None:
        self._database = database
        self._capacity = capacity
        self._graph = graph
        self._unindexed = unindexed
        self._task: asyncio.Task[None] | None = None
        self._are_complete = asyncio.Event()

    async def prepare(self) -> None:
        """Build the indexes of small collections, begin with the others. Raises PyMongoError."""
        large: list[ResourceType] = []
        for resource in self._graph.values():
            count = await self._database[resource.collection].estimated_document_count()
            if count <= self._capacity.small_collection:
                await build_indexes(self._database, resource)
            else:
                large.append(resource)
                self._unindexed.add(resource.type)
        self._task = asyncio.create_task(self._build_all(large))

    async def catch_up(self) -> None:
        """Wait until the indexes of all collections are complete."""
        await self._are_complete.wait()

    async def close(self) -> None:
        """End the builds; the next start begins them again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _build_all(self, resources: list[ResourceType]) -> None:
        # At once: complete ones do not wait for others to be built.
        async with asyncio.TaskGroup() as builds:
            for resource in resources:
                builds.create_task(self._build(resource))
        self._are_complete.set()

    async def _build(self, resource: ResourceType) -> None:
        """Build the missing indexes of a type; log errors, and try again after each."""
        pause = self._capacity.index_retry_seconds
        while True:
            _log.info("Checking the indexes of %s, building missing ones", resource.collection)
            try:
                with translated_errors():
                    await build_indexes(self._database, resource)
            except Exception as error:  # noqa: BLE001 - other builds continue in spite of a defect
                if not isinstance(error.__cause__, ConnectionFailure):  # then all queries wait
                    text = "Queries stay slower until this succeeds, again in %g s"
                    is_defect = not isinstance(error, RequestError)
                    _log.error(text, pause, exc_info=error if is_defect else None)
                await asyncio.sleep(pause)
            else:
                self._unindexed.discard(resource.type)
                _log.info("The indexes of %s are complete", resource.collection)
                return


async def build_indexes(database: Database, resource: ResourceType) -> None:
    """Build missing indexes for filters and sorts, each of a field and the id."""
    fields = sorted(resource.indexed_fields - {ID})
    # A revision has one of many links: the other indexes leave it out.
    models = [
        IndexModel(
            [(field, ASCENDING), (ID, ASCENDING)],
            **({"partialFilterExpression": {field: {"$exists": True}}} if resource.subject else {}),
        )
        for field in fields
    ]
    existing = await database[resource.collection].index_information()
    # MongoDB refuses to build the same index under another name.
    named = [
        index["key"]
        for name, index in existing.items()
        if name not in {model.document["name"] for model in models}
        and not index.keys() & {"sparse", "partialFilterExpression", "collation"}
    ]
    missing = [model for model in models if list(model.document["key"].items()) not in named]
    if missing:
        await _build_missing(database, resource.collection, missing)


async def prepare_expiry(database: Database, graph: Graph) -> None:
    """Let MongoDB delete revisions after their days."""
    if graph.revisions is None or graph.revision_days is None:
        return
    collection, seconds = graph.revisions.collection, graph.revision_days * 86_400
    try:
        await database[collection].create_index(AT, expireAfterSeconds=seconds)
    except OperationFailure as error:
        if error.code != _INDEX_OPTIONS_CONFLICT:
            raise
        index = {"keyPattern": {AT: ASCENDING}, "expireAfterSeconds": seconds}
        await database.command("collMod", collection, index=index)


async def drop_index(collection: AsyncIOMotorCollection[Record], name: str) -> bool:
    """Drop an index, unless another process has; return whether it was there."""
    try:
        await collection.drop_index(name)
    except OperationFailure as error:
        if error.code != _INDEX_NOT_FOUND:
            raise
        return False
    return True


async def _build_missing(
    database: Database, collection: str, indexes: Sequence[IndexModel]
) -> None:
    """Build the missing indexes of a collection; MongoDB logs the progress.

    Other processes that build the same ones wait for one build in MongoDB, and begin another if it
    is aborted. The build is ended if the caller is cancelled. Raises DuplicateKeyError if an index
    is unique, but what is stored is not.
    """
    # Otherwise a thread would wait for the build, and delay the end of the process.
    async with ReadCommands(database).cancellable_session() as session:
        with pymongo.timeout(_BUILD_SECONDS):
            await database[collection].create_indexes(
                indexes,
                session=session,
                commitQuorum="majority",  # by default, a member that is down would block it
            )


async def prepare_unique_indexes(database: Database, graph: Graph) -> None:
    """Create missing unique indexes, and drop those of attributes that are no longer unique.

    Raises StartError with the duplicate values, or why MongoDB cannot create an index.
    """
    refusals: list[str] = []
    for resource in graph.values():
        collection = database[resource.collection]
        wanted = {_index_name(*each): each for each in resource.unique_attributes.items()}
        for index_name, index in sorted((await collection.index_information()).items()):
            name, attribute = wanted.get(index_name, ("", None))
            compared = attribute and {name: _is_compared(attribute)}
            if not index_name.startswith(_PREFIX) or index["partialFilterExpression"] == compared:
                continue
            if await drop_index(collection, index_name):
                text = "Dropped the index %s of %s: the values need not be unique any more"
                _log.warning(text, index_name, resource.collection)
        for name, attribute in wanted.values():
            if reason := await _create_unique_index(database, resource, name, attribute):
                refusals.append(f"{resource.type}.{name} cannot be unique, as {reason}")
    if refusals:
        raise StartError("; ".join(refusals))


async def _create_unique_index(
    database: Database, resource: ResourceType, name: str, attribute: ResourceField
) -> str:
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
        await _build_missing(database, resource.collection, [index])
    except DuplicateKeyError:
        collection = database[resource.collection]
        values = await _describe_duplicates(collection, name, compared, **collation)
        values = values or "none any more, start again"
        return f"{resource.collection} have these values more than once: {values}"
    except OperationFailure as error:
        return f"MongoDB cannot create the index: {(error.details or {}).get('errmsg')}"
    return ""


async def _describe_duplicates(
    collection: AsyncIOMotorCollection[Record],
    field: str,
    query: Mapping[str, Any],
    **options: Any,
) -> str:
    """Return the first values of a field that several records of a query have, with their ids."""
    stages: list[Stage] = [
        {"$match": query},
        {"$group": {ID: f"${field}", "ids": {"$minN": {"input": f"${ID}", "n": _MAX_IDS + 1}}}},
        {"$match": {"ids.1": {"$exists": True}}},
        {"$sort": {ID: 1}},
        {"$limit": _MAX_VALUES + 1},
    ]
    with pymongo.timeout(_BUILD_SECONDS):
        found = collection.aggregate(stages, allowDiskUse=True, **options)
        duplicates = await found.to_list(None)
    texts = [
        # As JSON, so that control characters do not break the line.
        f"{json.dumps(str(duplicate[ID])[:_MAX_CHARACTERS], ensure_ascii=False)} "
        f"(ids {_listed(duplicate['ids'], _MAX_IDS)})"
        for duplicate in duplicates
    ]
    return _listed(texts, _MAX_VALUES)


def _listed(items: Sequence[Any], limit: int) -> str:
    shown = [str(item) for item in items[:limit]]
    return ", ".join([*shown, "…"] if len(items) > limit else shown)


def unique_find(
    name: str, attribute: ResourceField, values: Sequence[Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the query and the options of a `find` for the records with values of an attribute."""
    # Without a hint: a service without the setting may have dropped the index.
    return {name: {"$in": values, **_is_compared(attribute)}}, _collation(attribute)


def equal_texts(texts: Sequence[str]) -> tuple[list[Stage], dict[str, Any]]:
    """Return the stages and the options that group texts which differ in case alone as `texts`."""
    stages: list[Stage] = [
        {"$documents": [{"text": text} for text in texts]},
        {"$group": {ID: "$text", "texts": {"$push": "$text"}}},
    ]
    return stages, {"collation": _IGNORING_CASE}


def _index_name(name: str, attribute: ResourceField) -> str:
    return f"{_PREFIX}{name}{'_ignoring_case' if attribute.kind.ignores_case else ''}"


def _is_compared(attribute: ResourceField) -> dict[str, Any]:
    """Return the condition for values in the index: all but null."""
    return {"$type": _COMPARED_TYPES[attribute.kind.stored_type]}


def _collation(attribute: ResourceField) -> dict[str, Any]:
    return {"collation": _IGNORING_CASE} if attribute.kind.ignores_case else {}
