"""The formats of the stored data: that of the service, with its upgrade, and that of mongod.

The service stores the number of its own in the collection `registry`: `{_id: "format", version}`;
format 1 has none.
"""

import datetime
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import pymongo
from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import SINCE, UNTIL
from registry.model.record import ID, VERSION, Record
from registry.model.resource_type import ResourceType
from registry.operations.consistency import dangling_links, unlink
from registry.program import StartError
from registry.storage.counters import COUNTERS, LAST, count_records
from registry.storage.indexes import drop_index
from registry.storage.mongo.mongo_client import SERVICE_COLLECTION, Database
from registry.storage.records import Stage, recompute
from registry.storage.validators import complete, suspend_validator

_log = logging.getLogger("registry")

FORMAT = 3
"""The format of this version. In format 2, records do not store how many members they have:
`prepare_validators` adds that, as for any relationship that is new."""

FORMAT_ID = "format"

_QUERY = {ID: FORMAT_ID}

_SECONDS = 86_400.0
"""The time limit of an upgrade, instead of that of the connection."""

_CONFIRMED_FROM = 7
"""The first major version of MongoDB that requires a confirmation to change the format of its data;
6.0 refuses one."""


async def upgrade(database: Database, graph: Graph) -> None:
    """Upgrade the data to FORMAT, and log that. All services of earlier versions must have ended.

    It may be interrupted, and done by several processes at once, of which one stores the counters:
    that one then allocates ids while the others end. Raises StartError if a later version has
    written the data; also PyMongoError.
    """
    version = await _stored_format(database)
    if version == FORMAT:
        return
    _require_known(version)
    new = {"version": version or FORMAT}
    await database[SERVICE_COLLECTION].update_one(_QUERY, {"$setOnInsert": new}, upsert=True)
    if version is None:
        return
    _log.info("Upgrading the data from format %d to %d", version, FORMAT)
    with pymongo.timeout(_SECONDS):
        counters = await _to_2(database, graph) if version == 1 else ()
        async with await database.client.start_session() as session:
            await session.with_transaction(partial(_store, database=database, counters=counters))
    _log.info("The data have format %d; earlier versions cannot use them any more", FORMAT)


async def require_current(database: Database) -> None:
    """Raise StartError unless the data have FORMAT, or there are none; also PyMongoError."""
    version = await _stored_format(database)
    if version not in {None, FORMAT}:
        _require_known(version)
        raise StartError(
            f"the data have format {version}: start the service, which upgrades them to {FORMAT}"
        )


async def _stored_format(database: Database) -> int | None:
    """Return the format of the data, None if there are none."""
    if found := await database[SERVICE_COLLECTION].find_one(_QUERY):
        version: int = found["version"]
        return version
    return 1 if await database[COUNTERS].find_one({}) else None


def _require_known(version: int | None) -> None:
    if version is not None and version > FORMAT:
        raise StartError(
            f"the data have format {version}, of a later version of the service than this one, "
            f"which knows formats up to {FORMAT}"
        )


async def _store(
    session: AsyncIOMotorClientSession, database: Database, counters: Sequence[Record]
) -> None:
    """Store the counters and the format, unless another process has."""
    query, update = {**_QUERY, "version": {"$lt": FORMAT}}, {"$set": {"version": FORMAT}}
    done = await database[SERVICE_COLLECTION].update_one(query, update, session=session)
    for counter in counters if done.modified_count else ():
        own = {ID: counter[ID]}
        await database[COUNTERS].replace_one(own, counter, upsert=True, session=session)


async def _to_2(database: Database, graph: Graph) -> Sequence[Record]:
    """Upgrade data of format 1; return the counters, which are stored with the next format.

    Complete records, and remove their links to nothing. Drop text blocks and leases.
    """
    existing = await database.list_collection_names()
    for resource in graph.values():
        if resource.collection in existing:
            await suspend_validator(database, resource)  # that of format 1 refuses those of 2
            await _complete_records(database, resource)
    for name in (
        "services",
        *(f"{resource.collection}.text_blocks" for resource in graph.values()),
    ):
        await database.drop_collection(name)
    former = {counter[ID]: counter async for counter in database[COUNTERS].find()}
    for tracked in tracked_links(graph):
        if not former.get(tracked.periods.type, {}).get("complete"):
            await _insert_missing_periods(database, tracked)
        periods = database[tracked.periods.collection]
        for bound, former_null in _FORMER_NULLS.items():
            await periods.update_many({bound: former_null}, {"$set": {bound: None}})
    await _unlink(database, graph)
    last = {id_: counter.get(LAST, counter.get("seq", 0)) for id_, counter in former.items()}
    counters: dict[Any, Record] = {id_: {ID: id_, LAST: number} for id_, number in last.items()}
    for type_name, resource in graph.items():
        counted = await count_records(database, resource, last.get(type_name, 0))
        counters[type_name] = {ID: type_name, **counted.fields}
    return list(counters.values())


_FORMER_NULLS = {
    SINCE: datetime.datetime(1, 1, 1, tzinfo=datetime.UTC),
    UNTIL: datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC),
}
"""What format 1 stored for null in the bounds of periods."""


async def _complete_records(database: Database, resource: ResourceType) -> None:
    collection = database[resource.collection]
    await drop_index(collection, f"text_block_1_{ID}_1")
    await complete(collection, {"text_block": {"$exists": True}}, [{"$unset": "text_block"}])
    if resource.computed:
        lacking = {"$or": [{name: None} for name in resource.computed]}
        await complete(collection, lacking, recompute(resource))
    if not resource.read_only:
        await complete(collection, {VERSION: None}, [{"$set": {VERSION: 0}}])


async def _unlink(database: Database, graph: Graph) -> None:
    """Remove links to nothing; log how many there were."""
    for resource in graph.writable:  # periods outlive their targets
        for link in resource.links:
            total = 0
            async for dangling in dangling_links(database, resource, link, graph):
                await unlink(database, resource, link, dangling)
                total += len(dangling)
            if total:
                message = "%d of %s had as %s a %s that does not exist, and have none now"
                _log.warning(message, total, resource.collection, link.name, link.target)


async def _insert_missing_periods(database: Database, tracked: TrackedLink) -> None:
    """Insert the periods of links that are older than their history.

    Each gets its id in the record with the link first, so that this can be repeated.
    """
    link, sources = tracked.link, database[tracked.source.collection]
    periods = tracked.periods.collection
    last = max(
        await _greatest(database, periods, ID),
        await _greatest(database, sources.name, link.period_field),
    )
    number = {"sortBy": {ID: 1}, "output": {"number": {"$documentNumber": {}}}}
    point: list[Stage] = [
        {"$match": {link.foreign_key: {"$ne": None}, link.period_field: None}},
        {"$project": {ID: True}},
        {"$setWindowFields": number},
        {"$project": {link.period_field: {"$add": [last, "$number"]}}},
        {"$merge": {"into": sources.name, "whenNotMatched": "discard"}},
    ]
    found = {"from": periods, "localField": link.period_field, "foreignField": ID, "as": "found"}
    insert: list[Stage] = [
        {"$match": {link.foreign_key: {"$ne": None}}},
        {"$lookup": found},
        {"$match": {"found": []}},
        {
            "$project": {
                ID: f"${link.period_field}",
                SINCE: {"$literal": None},
                UNTIL: {"$literal": None},
                tracked.source_key: f"${ID}",
                tracked.target_key: f"${link.foreign_key}",
            }
        },
        {"$merge": periods},
    ]
    for stages in (point, insert):
        await sources.aggregate(stages, allowDiskUse=True).to_list(None)


async def _greatest(database: Database, collection: str, field: str) -> Any:
    """Return the greatest value of a field, 0 if there is none."""
    first = await database[collection].find_one({}, [field], sort=[(field, -1)])
    return (first or {}).get(field) or 0


async def raise_format(database: Database) -> tuple[str, str]:
    """Raise the format of the data of a mongod to its own; return both, such as 7.0, as they were.

    MongoDB calls it the feature compatibility version. A mongod opens data in its own format and in
    that of the major version before, and keeps it; once it is raised, earlier versions cannot open
    the data. It may be repeated, also after an interruption. Raises PyMongoError.
    """
    admin = database.client.admin
    own = (await admin.command("buildInfo"))["version"].rpartition(".")[0]
    name = "featureCompatibilityVersion"
    data = (await admin.command({"getParameter": 1, name: 1}))[name]["version"]
    command: dict[str, Any] = {"setFeatureCompatibilityVersion": own}
    if int(own.partition(".")[0]) >= _CONFIRMED_FROM:
        command["confirm"] = True
    await admin.command(command)
    return own, data
