"""The naive server: aiohttp and motor, no validation and no transactions.

Each command is in effect on its own. Its responses to the requests of the benchmark equal those of
the service. Run it with `python -m benchmark.naive URI DATABASE`.
"""

import sys
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorDatabase
from pymongo import ReturnDocument

from benchmark.processes import serve
from registry.protocol import MEDIA_TYPE

Record = dict[str, Any]
ResourceObject = dict[str, Any]

Database = AsyncIOMotorDatabase[Record]

DATABASE = web.AppKey("database", AsyncIOMotorDatabase[Record])

TOTAL = web.AppKey("total", int)
"""The number of computers at the start: the server does not count them for each page."""

VISIBLE = {"password": False}


def _respond(document: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(document), content_type=MEDIA_TYPE)


def _respond_with(
    resource: ResourceObject, status: int = 200, included: Iterable[ResourceObject] | None = None
) -> web.Response:
    links = {"self": resource["links"]["self"]}
    document: dict[str, Any] = {"data": resource, "jsonapi": {"version": "1.0"}, "links": links}
    if included is not None:
        document["included"] = list(included)
    return _respond(document, status)


def _person(record: Record, *, is_new: bool = False) -> ResourceObject:
    names = {"first_name": record["first_name"], "last_name": record["last_name"]}
    full_name = {} if is_new else {"full_name": " ".join(names.values())}
    return {
        "type": "person",
        "id": str(record["_id"]),
        "attributes": {**names, **full_name, "email": record["email"]},
        "links": {"self": f"/persons/{record['_id']}"},
    }


def _computer(record: Record) -> ResourceObject:
    return {
        "type": "computer",
        "id": str(record["_id"]),
        "attributes": {"serial": record["serial"]},
        "links": {"self": f"/computers/{record['_id']}"},
    }


def _with_linkage(resource: ResourceObject, name: str, linkage: object) -> ResourceObject:
    path = resource["links"]["self"]
    links = {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"}
    return {**resource, "relationships": {name: {"data": linkage, "links": links}}}


def _computer_with_owner(record: Record) -> ResourceObject:
    return _with_linkage(
        _computer(record), "owner", {"type": "person", "id": str(record["person"])}
    )


def _linkage(records: Iterable[Record]) -> list[dict[str, str]]:
    return [{"type": "computer", "id": str(record["_id"])} for record in records]


async def _read(request: web.Request) -> web.Response:
    database, number = request.app[DATABASE], int(request.match_info["id"])
    record = await database.persons.find_one({"_id": number}, VISIBLE)
    if record is None:
        raise web.HTTPNotFound
    if "include" not in request.query:
        return _respond_with(_person(record))
    owned = await database.computers.find({"person": number}).sort("_id").to_list(None)
    resource = _with_linkage(_person(record), "computers", _linkage(owned))
    return _respond_with(resource, included=map(_computer, owned))


async def _list_all(request: web.Request) -> web.Response:
    records = await request.app[DATABASE].persons.find({}, VISIBLE).to_list(None)
    return _respond(
        {
            "data": [_person(record) for record in records],
            "jsonapi": {"version": "1.0"},
            "links": {"self": f"{request.scheme}://{request.host}{request.raw_path}"},
            "meta": {"count": len(records)},
        }
    )


async def _page(request: web.Request) -> web.Response:
    database, total = request.app[DATABASE], request.app[TOTAL]
    number, size = int(request.query["page[number]"]), int(request.query["page[size]"])
    found = database.computers.find().sort("_id", 1).skip((number - 1) * size).limit(size)
    records = await found.to_list(None)
    ids = list({record["person"] for record in records})
    owners = await database.persons.find({"_id": {"$in": ids}}, {"last_name": True}).to_list(None)
    url, last = f"{request.scheme}://{request.host}{request.raw_path}", -(-total // size)
    base = url.partition("&page%5B")[0]
    links = {
        "first": 1,
        "last": last,
        "prev": number - 1 or None,
        "next": number + 1 if number < last else None,
    }
    return _respond(
        {
            "data": [_computer_with_owner(record) for record in records],
            "included": [
                {
                    "type": "person",
                    "id": str(owner["_id"]),
                    "attributes": {"last_name": owner["last_name"]},
                    "links": {"self": f"/persons/{owner['_id']}"},
                }
                for owner in owners
            ],
            "jsonapi": {"version": "1.0"},
            "links": {
                "self": url,
                **{
                    name: to and f"{base}&page%5Bnumber%5D={to}&page%5Bsize%5D={size}"
                    for name, to in links.items()
                },
            },
            "meta": {"count": len(records), "total": total},
        }
    )


async def _create_person(request: web.Request) -> web.Response:
    record = await _insert_person(request.app[DATABASE], await _request_data(request))
    return _respond_with(_person(record, is_new=True), 201)


async def _create_computer(request: web.Request) -> web.Response:
    data = await _request_data(request)
    owner = int(data["relationships"]["owner"]["data"]["id"])
    record = await _insert_computer(request.app[DATABASE], data, owner)
    return _respond_with(_computer_with_owner(record), 201)


async def _update_person(request: web.Request) -> web.Response:
    database, number = request.app[DATABASE], int(request.match_info["id"])
    data = await _request_data(request)
    if "relationships" not in data:
        return _respond_with(_person(await _update(database, number, data["attributes"])))
    members = data["relationships"]["computers"]["data"]
    ids = [int(member["id"]) for member in members]
    removed = {"person": number, "_id": {"$nin": ids}}
    await database.computers.update_many(removed, {"$set": {"person": None}})
    await database.computers.update_many({"_id": {"$in": ids}}, {"$set": {"person": number}})
    record = await database.persons.find_one({"_id": number}, VISIBLE)
    if record is None:
        raise web.HTTPNotFound
    return _respond_with(_with_linkage(_person(record), "computers", members))


async def _insert_person(database: Database, data: dict[str, Any]) -> Record:
    identity = await _new_identity(database, "person")
    record = {**identity, "password": None, "email": None, **data["attributes"]}
    await database.persons.insert_one(record)
    return record


async def _insert_computer(database: Database, data: dict[str, Any], owner: int) -> Record:
    identity = await _new_identity(database, "computer")
    record = {**identity, "serial": data["attributes"]["serial"], "person": owner}
    await database.computers.insert_one(record)
    return record


async def _new_identity(database: Database, type_name: str) -> Record:
    counter = await database.counters.find_one_and_update(
        {"_id": type_name}, {"$inc": {"last": 1}}, return_document=ReturnDocument.AFTER
    )
    time = _now()
    return {"_id": counter["last"], "created_at": time, "updated_at": time}


async def _update(database: Database, number: int, attributes: dict[str, Any]) -> Record:
    record = await database.persons.find_one_and_update(
        {"_id": number},
        {"$set": {**attributes, "updated_at": _now()}},
        VISIBLE,
        return_document=ReturnDocument.AFTER,
    )
    if record is None:
        raise web.HTTPNotFound
    return record


async def _request_data(request: web.Request) -> dict[str, Any]:
    data: dict[str, Any] = orjson.loads(await request.read())["data"]
    return data


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _connect(app: web.Application) -> AsyncIterator[None]:
    uri, name = sys.argv[1:3]
    client: AsyncIOMotorClient[Record] = AsyncIOMotorClient(uri, w="majority", journal=True)
    app[DATABASE] = database = client[name]
    app[TOTAL] = await database.computers.estimated_document_count()
    await database.computers.create_index("person")
    yield
    client.close()


def main() -> None:
    """Serve until a signal."""
    app = web.Application()
    app.cleanup_ctx.append(_connect)
    app.router.add_get("/persons", _list_all)
    app.router.add_post("/persons", _create_person)
    app.router.add_get("/persons/{id}", _read)
    app.router.add_patch("/persons/{id}", _update_person)
    app.router.add_get("/computers", _page)
    app.router.add_post("/computers", _create_computer)
    serve(app, *sys.argv[3:])


if __name__ == "__main__":
    main()
