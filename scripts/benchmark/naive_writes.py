"""The documents of the naive server, equal to those of the service, and its writes.

There are no transactions: each command is in effect on its own.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import hdrs, web
from motor.motor_asyncio import AsyncIOMotorDatabase
from pymongo import ReturnDocument

from registry.protocol import EXTENSION, MEDIA_TYPE, OPERATIONS, RESULTS, media_type

Record = dict[str, Any]
ResourceObject = dict[str, Any]

Database = AsyncIOMotorDatabase[Record]

DATABASE = web.AppKey("database", AsyncIOMotorDatabase[Record])

VISIBLE = {"password": False}


def respond(document: dict[str, Any], status: int = 200) -> web.Response:
    """Return the response with a document."""
    return web.Response(status=status, body=orjson.dumps(document), content_type=MEDIA_TYPE)


def respond_with(
    resource: ResourceObject,
    status: int = 200,
    included: Iterable[ResourceObject] | None = None,
) -> web.Response:
    """Return the response with one resource. included: None if the request has no `include`."""
    links = {"self": resource["links"]["self"]}
    document: dict[str, Any] = {"data": resource, "jsonapi": {"version": "1.0"}, "links": links}
    if included is not None:
        document["included"] = list(included)
    return respond(document, status)


def person(record: Record) -> ResourceObject:
    """Return the resource object of a person."""
    number = str(record["_id"])
    return {
        "type": "person",
        "id": number,
        "attributes": {
            "first_name": record["first_name"],
            "last_name": record["last_name"],
            "full_name": f"{record['first_name']} {record['last_name']}",
            "email": record["email"],
        },
        "links": {"self": f"/persons/{number}"},
    }


def created_person(record: Record) -> ResourceObject:
    """Return the resource object of a person in the response to its creation."""
    resource = person(record)
    del resource["attributes"]["full_name"]
    return resource


def computer(record: Record) -> ResourceObject:
    """Return the resource object of a computer, without its owner."""
    number = str(record["_id"])
    return {
        "type": "computer",
        "id": number,
        "attributes": {"serial": record["serial"]},
        "links": {"self": f"/computers/{number}"},
    }


def computer_with_owner(record: Record) -> ResourceObject:
    """Return the resource object of a computer, with the linkage of its owner."""
    resource, owner = computer(record), record["person"]
    linkage = None if owner is None else {"type": "person", "id": str(owner)}
    return _with_linkage(resource, "owner", linkage)


def person_with_computers(record: Record, members: list[dict[str, str]]) -> ResourceObject:
    """Return the resource object of a person, with the linkage of its computers."""
    return _with_linkage(person(record), "computers", members)


def _with_linkage(resource: ResourceObject, name: str, linkage: object) -> ResourceObject:
    path = resource["links"]["self"]
    links = {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"}
    return {**resource, "relationships": {name: {"data": linkage, "links": links}}}


async def create_person(request: web.Request) -> web.Response:
    """Create a person."""
    data = await _data(request)
    return respond_with(created_person(await _insert_person(request.app[DATABASE], data)), 201)


async def create_computer(request: web.Request) -> web.Response:
    """Create a computer with an owner, and include that."""
    database, data = request.app[DATABASE], await _data(request)
    owner = int(data["relationships"]["owner"]["data"]["id"])
    record = await _insert_computer(database, data, owner)
    included = None
    if "include" in request.query:
        owners = await database.persons.find({"_id": owner}, VISIBLE).to_list(None)
        included = map(person, owners)
    return respond_with(computer_with_owner(record), 201, included)


async def update_person(request: web.Request) -> web.Response:
    """Update the attributes of a person, or replace its computers."""
    number, data = int(request.match_info["id"]), await _data(request)
    if "relationships" in data:
        return await _replace(request, number, data["relationships"]["computers"]["data"])
    record = await _update(request.app[DATABASE], "persons", number, data["attributes"])
    return respond_with(person(record))


async def delete_person(request: web.Request) -> web.Response:
    """Delete a person; its computers remain."""
    database, number = request.app[DATABASE], int(request.match_info["id"])
    await database.computers.update_many({"person": number}, {"$set": {"person": None}})
    result = await database.persons.delete_one({"_id": number})
    if not result.deleted_count:
        raise web.HTTPNotFound
    return web.Response(status=204)


async def perform_operations(request: web.Request) -> web.Response:
    """Perform operations one after another, as the handlers for single requests do."""
    local_ids: dict[str, int] = {}
    results = [
        {"data": await _perform(request.app[DATABASE], one, local_ids)}
        for one in orjson.loads(await request.read())[OPERATIONS]
    ]
    document = {RESULTS: results, "jsonapi": {"version": "1.0"}}
    headers = {hdrs.CONTENT_TYPE: media_type(EXTENSION)}
    return web.Response(body=orjson.dumps(document), headers=headers)


async def _perform(
    database: Database, operation: dict[str, Any], local_ids: dict[str, int]
) -> ResourceObject:
    data = operation["data"]
    match operation["op"], data["type"]:
        case "add", "person":
            record = await _insert_person(database, data)
            local_ids[data["lid"]] = record["_id"]
            return created_person(record)
        case "add", "computer":
            owner = local_ids[data["relationships"]["owner"]["data"]["lid"]]
            return computer_with_owner(await _insert_computer(database, data, owner))
        case _, "person":
            attributes = data["attributes"]
            return person(await _update(database, "persons", int(data["id"]), attributes))
    return computer(await _update(database, "computers", int(data["id"]), data["attributes"]))


async def _replace(
    request: web.Request, number: int, members: list[dict[str, str]]
) -> web.Response:
    database = request.app[DATABASE]
    ids = [int(member["id"]) for member in members]
    removed = {"person": number, "_id": {"$nin": ids}}
    await database.computers.update_many(removed, {"$set": {"person": None}})
    await database.computers.update_many({"_id": {"$in": ids}}, {"$set": {"person": number}})
    record = await database.persons.find_one({"_id": number}, VISIBLE)
    if record is None:
        raise web.HTTPNotFound
    included = None
    if "include" in request.query:
        computers = await database.computers.find({"_id": {"$in": ids}}).sort("_id").to_list(None)
        included = map(computer, computers)
    return respond_with(person_with_computers(record, members), included=included)


async def _insert_person(database: Database, data: dict[str, Any]) -> Record:
    attributes = data["attributes"]
    record = {
        **await _identity(database, "person"),
        "password": None,
        "first_name": attributes["first_name"],
        "last_name": attributes["last_name"],
        "email": attributes.get("email"),
    }
    await database.persons.insert_one(record)
    return record


async def _insert_computer(database: Database, data: dict[str, Any], owner: int) -> Record:
    record = {
        **await _identity(database, "computer"),
        "serial": data["attributes"]["serial"],
        "person": owner,
    }
    await database.computers.insert_one(record)
    return record


async def _identity(database: Database, type_name: str) -> Record:
    """Return the id of a new record, and when it was created and updated."""
    counter = await database.counters.find_one_and_update(
        {"_id": type_name}, {"$inc": {"seq": 1}}, return_document=ReturnDocument.AFTER
    )
    time = _now()
    return {"_id": counter["seq"], "created_at": time, "updated_at": time}


async def _update(
    database: Database, collection: str, number: int, attributes: dict[str, Any]
) -> Record:
    record = await database[collection].find_one_and_update(
        {"_id": number},
        {"$set": {**attributes, "updated_at": _now()}},
        VISIBLE,
        return_document=ReturnDocument.AFTER,
    )
    if record is None:
        raise web.HTTPNotFound
    return record


async def _data(request: web.Request) -> dict[str, Any]:
    data: dict[str, Any] = orjson.loads(await request.read())["data"]
    return data


def _now() -> str:
    """Return the current time, as it is stored."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
