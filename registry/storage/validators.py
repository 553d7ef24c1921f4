"""Validators: MongoDB refuses records that do not fit the declarations of their types.

The validator of a collection is also what remembers the last declaration. All functions raise
PyMongoError.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pymongo
from marshmallow import missing
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo.errors import OperationFailure

from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.program import StartError
from registry.storage.indexes import drop_index
from registry.storage.member_counts import recount_members
from registry.storage.mongo.mongo_client import Database, reason_of
from registry.storage.records import Stage, record_schema

_log = logging.getLogger("registry")

_BATCH_SIZE = 10_000
"""Records per update: an end of the process waits for it."""

_SECONDS = 3_600.0
"""The time limit of a check, and of an update, of all records."""

_MAX_IDS = 5

_UNAUTHORIZED = 13
"""MongoDB's error code for a command that the user may not run."""

_NAMESPACE_EXISTS = 48
"""MongoDB's error code for a collection that another process has created."""

_BUILDING_INDEXES = 12587
"""MongoDB's error code for a collection of which another process builds indexes."""

_PAUSE_SECONDS = 0.1
"""The pause before a validator is set again while indexes are built."""


async def prepare_validators(database: Database, graph: Graph) -> None:
    """Set the validators that differ from the declarations, after a check of what is stored.

    Records without a value for a new attribute get its default, and the targets of a new link get
    their counts of members. Raises StartError if records do not fit what is declared, with their
    number and the first ids.
    """
    stored = await _stored_options(database)
    changed = [
        resource
        for resource in graph.values()
        if stored.get(resource.collection) != _options(resource)
    ]
    reasons: list[str] = []
    with pymongo.timeout(_SECONDS):
        for resource in changed:
            reasons += await _former_collections(database, resource, stored)
            if resource.collection in stored:
                await _set_missing_defaults(database, resource)
                reasons += await _misfits(database, resource, _schema(stored[resource.collection]))
    if reasons:
        remedy = "declare it as before or under another name, or change the resources first"
        raise StartError(f"{'; '.join(reasons)}; {remedy}")
    for resource in changed:
        former = stored.get(resource.collection)
        if former is not None:
            with pymongo.timeout(_SECONDS):
                names = _newly_counted(resource, _schema(former))
                await recount_members(database, graph, resource, names)
        await _set_validator(database, resource, former)


async def is_declared(database: Database, graph: Graph) -> bool:
    """Return whether the validators are still those of the types of a graph."""
    stored = await _stored_options(database)
    return all(stored.get(resource.collection) == _options(resource) for resource in graph.values())


async def misfits(
    collection: AsyncIOMotorCollection[Record],
    resource: ResourceType,
    session: AsyncIOMotorClientSession | None = None,
) -> AsyncIterator[tuple[Any, str]]:
    """Yield the id of each record that does not fit its type, with the names of the fields."""
    schema = record_schema(resource)
    parts = {
        name: {"properties": {name: value_schema}, "required": [name]}
        if name in schema["required"]
        else {"properties": {name: value_schema}}
        for name, value_schema in schema["properties"].items()
    }
    unfit = {"$nor": [{"$jsonSchema": schema}]}
    cursor = collection.find(unfit, [ID], batch_size=_BATCH_SIZE, session=session)
    while records := await cursor.to_list(_BATCH_SIZE):
        names: dict[Any, list[str]] = {record[ID]: [] for record in records}
        for name, part in parts.items():
            query = {ID: {"$in": [*names]}, "$nor": [{"$jsonSchema": part}]}
            async for record in collection.find(query, [ID], session=session):
                names[record[ID]].append(name)
        for id_, fields in names.items():
            yield id_, ", ".join(fields)


async def complete(
    collection: AsyncIOMotorCollection[Record], query: Mapping[str, Any], update: list[Stage]
) -> None:
    """Update all records that a query selects; updated ones must no longer match it."""
    cursor = collection.find(query, [ID], batch_size=_BATCH_SIZE)
    while records := await cursor.to_list(_BATCH_SIZE):
        ids = [record[ID] for record in records]
        await collection.update_many({**query, ID: {"$in": ids}}, update)


def _options(resource: ResourceType) -> dict[str, Any]:
    return {
        "validator": {"$jsonSchema": record_schema(resource)},
        "validationLevel": "strict",
        "validationAction": "error",
    }


async def _grant_of_role(database: Database) -> str:
    """Return the command by which an administrator lets the user of the service set validators."""
    status = await database.command("connectionStatus")
    user, *_ = status["authInfo"]["authenticatedUsers"]
    role = f'[{{role: "dbAdmin", db: "{database.name}"}}]'
    return f'db.getSiblingDB("{user["db"]}").grantRolesToUser("{user["user"]}", {role})'


def _schema(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema in the options of a collection, empty if it has none."""
    schema: Mapping[str, Any] = (options.get("validator") or {}).get("$jsonSchema", {})
    return schema


async def _stored_options(database: Database) -> dict[str, dict[str, Any]]:
    """Return what is validated in each collection, as `_options` does."""
    names = ("validator", "validationLevel", "validationAction")
    return {
        collection["name"]: {name: collection["options"].get(name) for name in names}
        for collection in await (await database.list_collections()).to_list(None)
    }


async def _former_collections(
    database: Database, resource: ResourceType, stored: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return why a type cannot have another collection, or a collection another type."""
    titles = {name: _schema(options).get("title") for name, options in stored.items()}
    former = {name: title for name, title in titles.items() if title == resource.type}
    former |= {resource.collection: title} if (title := titles.get(resource.collection)) else {}
    return [
        f"the collection of {title} is {name}, which has records"
        for name, title in former.items()
        if (name, title) != (resource.collection, resource.type)
        and await database[name].find_one({}, [ID])
    ]


async def _set_missing_defaults(database: Database, resource: ResourceType) -> None:
    collection = database[resource.collection]
    for name, attribute in resource.attributes.items():
        if attribute.default not in (None, missing):
            absent = ["missing"] if attribute.nullable else ["missing", "null"]
            query = {"$expr": {"$in": [{"$type": f"${name}"}, absent]}}
            default = {"$literal": attribute.default}
            await complete(collection, query, [{"$set": {name: default}}])


async def _misfits(
    database: Database, resource: ResourceType, former: Mapping[str, Any]
) -> list[str]:
    """Return for the fields of a type that do not fit stored records, how many, and which."""
    collection = database[resource.collection]
    totals, first = Counter[str](), defaultdict[str, list[Any]](list)
    known = former.get("properties", {}) if former.get("title") else {}
    for name, property_ in record_schema(resource)["properties"].items():
        if known.get(name, property_).get("title") != property_.get("title"):
            # Another target, or no link.
            query = {name: {"$ne": None}}
            totals[name] = await collection.count_documents(query)
            first[name] = [
                record[ID] async for record in collection.find(query, [ID], limit=_MAX_IDS)
            ]
    async for id_, names in misfits(collection, resource):
        totals[names] += 1
        if len(first[names]) < _MAX_IDS:
            first[names].append(id_)
    return [_misfit(resource, names, first[names], total) for names, total in (+totals).items()]


def _newly_counted(resource: ResourceType, former: Mapping[str, Any]) -> list[str]:
    """Return the relationships whose counts the former schema lacks, or has for another link."""
    known, declared = former.get("properties", {}), record_schema(resource)["properties"]
    fields = resource.count_fields.items()
    return [name for name, field in fields if known.get(field) != declared[field]]


def _misfit(resource: ResourceType, names: str, first: Sequence[Any], total: int) -> str:
    """Return that fields do not fit so many records, with the ids of the first, in a line."""
    ids = ", ".join(map(str, first))
    more = f" and {total - len(first):,} more" if total > len(first) else ""
    records = resource.type if total == 1 else resource.collection
    return (
        f"{resource.type}.{names} does not fit the stored values of {total:,} {records} "
        f"(ids {ids}{more})"
    )


async def _set_validator(
    database: Database, resource: ResourceType, former: Mapping[str, Any] | None
) -> None:
    """Set the validator of a collection, which is created if there is no former one.

    Indexes of what is no longer declared are dropped, as their number is limited.
    """
    name, options = resource.collection, _options(resource)
    if former is None:
        try:
            await database.command("create", name, **options)
        except OperationFailure as error:
            if error.code != _NAMESPACE_EXISTS:
                raise
        return
    await _modify(database, name, options)
    _log.info("Set the validator of %s", name)
    known = _schema(former).get("properties", {})
    for field in known.keys() - options["validator"]["$jsonSchema"]["properties"].keys():
        await drop_index(database[name], f"{field}_1_{ID}_1")


async def suspend_validator(database: Database, resource: ResourceType) -> None:
    """Let a collection take any record, until its validator is set.

    Raises StartError if the user may not do that.
    """
    await _modify(database, resource.collection, {"validationLevel": "off"})


async def _modify(database: Database, name: str, options: Mapping[str, Any]) -> None:
    """Modify a collection, once no other process builds indexes of it. Raises StartError."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            await database.command("collMod", name, **options)
        except OperationFailure as error:
            if error.code == _BUILDING_INDEXES and time.monotonic() < deadline:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            reason = f"cannot set the validator of {name}: {reason_of(error)}"
            if error.code != _UNAUTHORIZED:
                raise StartError(reason) from error
            remedy = await _grant_of_role(database)
            raise StartError(f"{reason}; in mongosh, as an administrator: {remedy}") from error
        return
