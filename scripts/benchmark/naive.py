"""The naive server: aiohttp and motor, no validation and no transactions.

Its responses to the requests of the benchmark equal those of the service. Run it with
`python -m benchmark.naive URI DATABASE`.
"""

import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator

import orjson
from aiohttp import web
from motor.motor_asyncio import AsyncIOMotorClient

from benchmark import naive_writes
from benchmark.naive_writes import (
    DATABASE,
    VISIBLE,
    Record,
    computer_with_owner,
    person,
    respond,
    respond_with,
)
from benchmark.processes import serve

TOTAL = web.AppKey("total", int)
"""The number of persons at the start: the server does not count them for each page."""

PAGE_SIZE = 50
OWNER = {"last_name": True}


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
    (position,) = orjson.loads(urlsafe_b64decode(token + "=" * (-len(token) % 4)))[1]
    matching = (
        database.computers.find({"_id": {"$gt": position}}).sort("_id", 1).limit(PAGE_SIZE + 1)
    )
    records = await matching.to_list(None)
    computers, more = records[:PAGE_SIZE], len(records) > PAGE_SIZE
    ids = {computer["person"] for computer in computers}
    owners = await database.persons.find({"_id": {"$in": list(ids)}}, OWNER).to_list(None)
    url = f"{request.scheme}://{request.host}{request.raw_path}"
    base = url.partition("&page%5B")[0] + f"&page%5Bsize%5D={PAGE_SIZE}"
    before, after = cursor(computers[0]["_id"]), cursor(computers[-1]["_id"]) if more else None
    return respond(
        {
            "data": [computer_with_owner(record) for record in computers],
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
                "prev": f"{base}&page%5Bbefore%5D={before}",
                "next": f"{base}&page%5Bafter%5D={after}" if more else None,
            },
            "meta": {"count": len(computers), "page": {"before": before, "after": after}},
        }
    )


async def connect(app: web.Application) -> AsyncIterator[None]:
    """Open the database with durable writes, as the service has; create index and counters."""
    uri, name = sys.argv[1:3]
    client: AsyncIOMotorClient[Record] = AsyncIOMotorClient(uri, w="majority", journal=True)
    app[DATABASE] = database = client[name]
    app[TOTAL] = await database.persons.estimated_document_count()
    await database.computers.create_index("person")
    for name in ("person", "computer"):
        (newest,) = await database[f"{name}s"].find().sort("_id", -1).limit(1).to_list(None)
        counter = {"$set": {"seq": newest["_id"]}}
        await database.counters.update_one({"_id": name}, counter, upsert=True)
    yield
    client.close()


def main() -> None:
    """Serve until a signal."""
    app = web.Application()
    app.cleanup_ctx.append(connect)
    app.router.add_get("/persons", numbered_page)
    app.router.add_post("/persons", naive_writes.create_person)
    app.router.add_get("/persons/{id}", read)
    app.router.add_patch("/persons/{id}", naive_writes.update_person)
    app.router.add_delete("/persons/{id}", naive_writes.delete_person)
    app.router.add_get("/computers", page)
    app.router.add_post("/computers", naive_writes.create_computer)
    app.router.add_post("/operations", naive_writes.perform_operations)
    serve(app, *sys.argv[3:])


if __name__ == "__main__":
    main()
