"""The naive server: aiohttp and motor, at most three queries per request, no validation.

Its responses to the requests of the benchmark equal those of the service. Run it with
`python -m benchmark.naive URI DATABASE`.
"""

from __future__ import annotations

import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorDatabase
from pymongo import ReturnDocument

from benchmark.serving import serve
from registry.jsonapi.content_negotiation import MEDIA_TYPE

Record = dict[str, Any]

DATABASE = web.AppKey("database", AsyncIOMotorDatabase[Record])
TOTAL = web.AppKey("total", int)
"""The number of persons at the start: the server does not count them for each page."""

PAGE_SIZE = 50
VISIBLE = {"password": False}
OWNER = {"last_name": True}


def respond(document: dict[str, Any], status: int = 200) -> web.Response:
    """Return the response with a document."""
    return web.Response(status=status, body=orjson.dumps(document), content_type=MEDIA_TYPE)


def person(record: Record) -> dict[str, Any]:
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


def now() -> str:
    """Return the current time, as it is stored."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def respond_with(resource: dict[str, Any], status: int = 200) -> web.Response:
    """Return the response with one resource."""
    links = {"self": resource["links"]["self"]}
    return respond({"data": resource, "jsonapi": {"version": "1.0"}, "links": links}, status)


def cursor(*position: int) -> str:
    """Return the cursor at a computer, or at the end of the collection."""
    text = orjson.dumps(["computer:_id", position])
    return urlsafe_b64encode(text).rstrip(b"=").decode()


async def read(request: web.Request) -> web.Response:
    """Respond with a person."""
    number = int(request.match_info["id"])
    record = await request.app[DATABASE].persons.find_one({"_id": number}, VISIBLE)
    if record is None:
        raise web.HTTPNotFound
    return respond_with(person(record))


async def list_all(request: web.Request) -> web.Response:
    """Respond with all persons."""
    records = await request.app[DATABASE].persons.find({}, VISIBLE).to_list(None)
    return respond(
        {
            "data": [person(record) for record in records],
            "jsonapi": {"version": "1.0"},
            "links": {"self": f"{request.scheme}://{request.host}{request.raw_path}"},
            "meta": {"count": len(records)},
        }
    )


async def numbered_page(request: web.Request) -> web.Response:
    """Respond with a page of persons, or with all of them."""
    if "page[number]" not in request.query:
        return await list_all(request)
    number, size = int(request.query["page[number]"]), int(request.query["page[size]"])
    matching = request.app[DATABASE].persons.find({}, VISIBLE).sort("_id", 1)
    records = await matching.skip((number - 1) * size).limit(size + 1).to_list(None)
    base = f"{request.scheme}://{request.host}{request.path}?page%5Bnumber%5D="
    links = {
        "first": 1,
        "last": -(-request.app[TOTAL] // size),
        "prev": number - 1 or None,
        "next": number + 1 if len(records) > size else None,
    }
    return respond(
        {
            "data": [person(record) for record in records[:size]],
            "jsonapi": {"version": "1.0"},
            "links": {
                "self": f"{request.scheme}://{request.host}{request.raw_path}",
                **{name: to and f"{base}{to}&page%5Bsize%5D={size}" for name, to in links.items()},
            },
            "meta": {"count": len(records[:size]), "total": request.app[TOTAL]},
        }
    )


async def page(request: web.Request) -> web.Response:
    """Respond with the serials of the computers after a cursor, and their owners' last names."""
    database = request.app[DATABASE]
    token = request.query["page[after]"]
    (after,) = orjson.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))[1]
    matching = database.computers.find({"_id": {"$gt": after}}).sort("_id", 1).limit(PAGE_SIZE + 1)
    records = await matching.to_list(None)
    computers, more = records[:PAGE_SIZE], len(records) > PAGE_SIZE
    ids = {computer["person"] for computer in computers}
    owners = await database.persons.find({"_id": {"$in": list(ids)}}, OWNER).to_list(None)
    url = f"{request.scheme}://{request.host}{request.raw_path}"
    base = url.partition("&page%5B")[0] + f"&page%5Bsize%5D={PAGE_SIZE}"
    next_page = f"{base}&page%5Bafter%5D={cursor(computers[-1]['_id'])}"
    return respond(
        {
            "data": [_computer(record) for record in computers],
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
                "first": base,
                "last": f"{base}&page%5Bbefore%5D={cursor()}",
                "prev": f"{base}&page%5Bbefore%5D={cursor(computers[0]['_id'])}",
                "next": next_page if more else None,
            },
            "meta": {"count": len(computers)},
        }
    )


def _computer(record: Record) -> dict[str, Any]:
    number, owner = record["_id"], record["person"]
    path = f"/computers/{number}"
    return {
        "type": "computer",
        "id": str(number),
        "attributes": {"serial": record["serial"]},
        "relationships": {
            "owner": {
                "data": None if owner is None else {"type": "person", "id": str(owner)},
                "links": {"self": f"{path}/relationships/owner", "related": f"{path}/owner"},
            }
        },
        "links": {"self": path},
    }


async def create(request: web.Request) -> web.Response:
    """Create a person."""
    database = request.app[DATABASE]
    attributes = orjson.loads(await request.read())["data"]["attributes"]
    counter = await database.counters.find_one_and_update(
        {"_id": "person"}, {"$inc": {"seq": 1}}, return_document=ReturnDocument.AFTER
    )
    time = now()
    record = {
        "_id": counter["seq"],
        "created_at": time,
        "updated_at": time,
        "password": None,
        "first_name": attributes["first_name"],
        "last_name": attributes["last_name"],
        "email": attributes.get("email"),
    }
    await database.persons.insert_one(record)
    resource = person(record)
    del resource["attributes"]["full_name"]
    return respond_with(resource, 201)


async def update(request: web.Request) -> web.Response:
    """Update the attributes of a person, or replace its computers."""
    data = orjson.loads(await request.read())["data"]
    if "relationships" in data:
        return await _replace(request, data["relationships"]["computers"]["data"])
    record = await request.app[DATABASE].persons.find_one_and_update(
        {"_id": int(request.match_info["id"])},
        {"$set": {**data["attributes"], "updated_at": now()}},
        VISIBLE,
        return_document=ReturnDocument.AFTER,
    )
    return respond_with(person(record))


async def _replace(request: web.Request, members: list[dict[str, str]]) -> web.Response:
    database, number = request.app[DATABASE], int(request.match_info["id"])
    ids = [int(member["id"]) for member in members]
    removed = {"person": number, "_id": {"$nin": ids}}
    await database.computers.update_many(removed, {"$set": {"person": None}})
    await database.computers.update_many({"_id": {"$in": ids}}, {"$set": {"person": number}})
    record = await database.persons.find_one({"_id": number}, VISIBLE)
    if record is None:
        raise web.HTTPNotFound
    resource = person(record)
    links, path = resource.pop("links"), f"/persons/{number}"
    linkage = {
        "data": members,
        "links": {
            "self": f"{path}/relationships/computers",
            "related": f"{path}/computers",
        },
    }
    return respond_with({**resource, "relationships": {"computers": linkage}, "links": links})


async def connect(app: web.Application) -> AsyncIterator[None]:
    """Open the database with durable writes, as the service has; create index and counter."""
    uri, name = sys.argv[1:3]
    client: AsyncIOMotorClient[Record] = AsyncIOMotorClient(uri, w="majority", journal=True)
    app[DATABASE] = database = client[name]
    app[TOTAL] = await database.persons.estimated_document_count()
    await database.computers.create_index("person")
    (newest,) = await database.persons.find().sort("_id", -1).limit(1).to_list(None)
    await database.counters.insert_one({"_id": "person", "seq": newest["_id"]})
    yield
    client.close()


def main() -> None:
    """Serve until a signal."""
    app = web.Application()
    app.cleanup_ctx.append(connect)
    app.router.add_get("/persons", numbered_page)
    app.router.add_post("/persons", create)
    app.router.add_get("/persons/{id}", read)
    app.router.add_patch("/persons/{id}", update)
    app.router.add_get("/computers", page)
    serve(app, *sys.argv[3:])


if __name__ == "__main__":
    main()
