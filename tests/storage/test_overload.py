"""Requests beyond the limits of their class, and those whose clients are gone."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from ipaddress import ip_network
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from registry.jsonapi.filtering import Condition
from registry.jsonapi.query import Query
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage import Repository
from registry.storage.bulkheads import Bulkheads
from registry.storage.reads.listings import Listing
from tests.conftest import LIMITS, Serve
from tests.support import MEDIA_TYPE, PERSON, Api, Database, bulkheads, complete_record, reset
from tests.waiting import eventually

GRAPH = Graph(RESOURCES)

HEAVY = "/computers?filter[serial][contains]=x"
HEAVY_PATHS = [
    HEAVY,
    f"{HEAVY}&page[size]=1",
    f"{HEAVY}&page[number]=1",
    "/computers?filter[serial]=x&page[number]=3&page[size]=501&page[total]=false",
    "/persons/1/computers?filter[serial]=x",
]
CHEAP_PATHS = [
    "/persons/1",
    "/persons/1?include=computers",
    "/computers?page[number]=2&page[size]=1&page[total]=false",
    "/computers?page[number]=3&page[size]=501",
    "/computers?filter[serial]=x&page[number]=1",
    "/persons/1/computers",
    "/persons/1/relationships/computers",
]


LONG_PATHS = ["/persons?filter[id][ge]=1", "/computers?filter[serial]=x&filter[owner]=1"]
"""Whole collections that may be large, although a condition limits them."""


@pytest.fixture
async def busy_api(serve: Serve) -> Api:
    """A service with one slot of each class but small requests, and no patience.

    A collection of one resource is not small.
    """
    names = set(Bulkheads.__slots__) - {"small_requests"}
    api = await serve(**dict.fromkeys(names, 1), queue_seconds=0.001, few_records=1)
    await api.person()
    return api


async def assert_overloaded(response: Any, name: str) -> None:
    (error,) = response.document["errors"]
    assert (response.status, error["code"]) == (503, "overloaded")
    assert f"The limit of {name} in progress, 1, is reached" in error["detail"]
    assert response.headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("name", "limited", "others"),
    [
        ("heavy_requests", HEAVY_PATHS, ["/persons", *CHEAP_PATHS]),
        ("streams", ["/persons", "/persons?sort=last_name", HEAVY, *LONG_PATHS], CHEAP_PATHS),
    ],
)
async def test_only_reads_beyond_the_limit_of_their_class_get_503(
    busy_api: Api, name: str, limited: list[str], others: list[str]
) -> None:
    slots = getattr(bulkheads(busy_api), name)
    async with slots:
        for path in limited:
            await assert_overloaded(await busy_api.get(path), name.replace("_", " "))
        for path in others:
            assert (await busy_api.get(path)).status == 200, path
        await busy_api.computer(owner="1")
    for path in limited:
        assert (await busy_api.get(path)).status == 200, path
        assert await eventually(lambda: slots.is_idle)


async def test_a_total_is_a_heavy_query_if_an_index_has_many_keys_for_it(
    busy_api: Api, database: Database
) -> None:
    serials = "a" * 1_000 + "b" * 1_001
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": serial})
        for number, serial in enumerate(serials, 1)
    )
    paths = {
        letter: f"/computers?filter[serial]={letter}&page[number]=1&page[size]=1" for letter in "ab"
    }
    async with bulkheads(busy_api).heavy_requests:
        assert (await busy_api.get(paths["a"])).document["meta"]["total"] == 1_000
        await assert_overloaded(await busy_api.get(paths["b"]), "heavy requests")
    assert (await busy_api.get(paths["b"])).document["meta"]["total"] == 1_001


async def test_only_large_writes_beyond_the_limit_get_503(
    busy_api: Api,
) -> None:
    many = [await busy_api.computer(f"SN-{number}") for number in range(100)]
    async with bulkheads(busy_api).heavy_requests:
        await assert_overloaded(await busy_api.set_computers("1", *many), "heavy requests")
        assert (await busy_api.set_computers("1", *many[1:])).status == 200
    assert (await busy_api.set_computers("1", *many)).status == 200


@pytest.mark.parametrize(
    "name", ["small_requests", pytest.param("streams", marks=pytest.mark.slow)]
)
async def test_a_response_to_a_write_does_not_say_that_nothing_was_changed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """When the write ends, others have all slots for reading what the response includes."""
    # A stream is not refused after a write, but waits until the response is late.
    late = {"kept_records": 1, "response_seconds": 6.0} if name == "streams" else {}
    api = await serve(**{name: 1}, **late, queue_seconds=0.1)
    person = await api.person()
    for _ in range(2):
        await api.computer(owner=person)
    write = Repository.write

    async def write_and_occupy(repository: Repository, *writes: Any, **options: Any) -> Any:
        results = await write(repository, *writes, **options)
        await getattr(repository.bulkheads, name).acquire()
        return results

    monkeypatch.setattr(Repository, "write", write_and_occupy)
    data = {"type": "person", "id": person, "attributes": {"last_name": "New"}}
    response = await api.send("PATCH", f"/persons/{person}?include=computers", data)
    (error,) = response.document["errors"]
    assert (response.status, error["code"]) == (503, "unavailable")
    assert "may or may not have been applied" in error["detail"]


SMALL = orjson.dumps({"data": PERSON})
LARGE = SMALL.ljust(50_001)


async def post(api: Api, body: Any, encoding: str = "identity") -> Any:
    return await api.request("POST", "/persons", body, {"Content-Encoding": encoding})


def head(length: int) -> bytes:
    """Return the head of a request that creates a person."""
    fields = f"Host: h\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {length}\r\n\r\n"
    return f"POST /persons HTTP/1.1\r\n{fields}".encode()


async def parts_of(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body, which is sent in chunks, as its length is unknown."""
    yield body


async def test_only_large_bodies_beyond_the_limit_get_503(busy_api: Api) -> None:
    async with bulkheads(busy_api).uploads:
        await assert_overloaded(await post(busy_api, LARGE), "uploads")
        await assert_overloaded(await post(busy_api, gzip.compress(LARGE), "gzip"), "uploads")
        status, document = await busy_api.raw(head(100_000) + LARGE)
        assert (status, document["errors"][0]["code"]) == (503, "overloaded")
        assert (await post(busy_api, SMALL.ljust(50_000))).status == 201
        # Bodies whose size is not known before they have arrived count as large.
        await assert_overloaded(await post(busy_api, gzip.compress(SMALL), "gzip"), "uploads")
        await assert_overloaded(await post(busy_api, parts_of(SMALL)), "uploads")
        assert (await post(busy_api, b"")).status == 400
    assert (await post(busy_api, LARGE)).status == 201
    assert (await post(busy_api, gzip.compress(LARGE), "gzip")).status == 201
    assert (await post(busy_api, LARGE.replace(b"{", b" "))).status == 400
    assert (await post(busy_api, LARGE)).status == 201
    assert bulkheads(busy_api).uploads.is_idle


async def test_a_large_body_leaves_its_slot_when_its_client_disconnects(busy_api: Api) -> None:
    slots = bulkheads(busy_api).uploads
    _, writer = await asyncio.open_connection("127.0.0.1", busy_api.client.port)
    writer.write(head(100_000) + LARGE)
    assert await eventually(lambda: not slots.is_idle)
    reset(writer)
    assert await eventually(lambda: slots.is_idle)


async def test_a_large_collection_of_a_resource_is_a_stream(
    busy_api: Api, database: Database
) -> None:
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": "x", "person": 1}) for number in range(1, 1_002)
    )
    async with bulkheads(busy_api).streams:
        await assert_overloaded(await busy_api.get("/persons/1/computers"), "streams")
    for _ in range(2):
        assert len((await busy_api.get("/persons/1/computers")).data) == 1_001
        assert await eventually(lambda: bulkheads(busy_api).streams.is_idle)


async def test_a_stream_counts_until_the_last_of_its_included_resources(
    busy_api: Api, database: Database
) -> None:
    await database.persons.insert_one(
        complete_record({"_id": 2, "first_name": "A", "last_name": "B"})
    )
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": "x" * 255, "person": 2})
        for number in range(1, 30_001)
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", busy_api.client.port)
    writer.write(b"GET /persons?include=computers HTTP/1.1\r\nHost: h\r\n\r\n")
    assert await reader.readuntil(b'"data":[')  # after the last person has been read
    await assert_overloaded(await busy_api.get("/persons"), "streams")
    reset(writer)

    assert await eventually(lambda: bulkheads(busy_api).streams.is_idle)
    assert len((await busy_api.get("/persons")).data) == 2


@pytest.mark.parametrize(("name", "body"), [("streams", None), ("uploads", gzip.compress(LARGE))])
async def test_one_address_leaves_half_of_the_slots_to_others(
    name: str, body: bytes | None, serve: Serve, settings: Settings
) -> None:
    settings = replace(settings, trusted_proxy=(ip_network("127.0.0.0/8"),))
    api = await serve(settings=settings, queue_seconds=0.001, **{name: 2})
    path, method, status = ("/persons", "POST", 201) if body else (HEAVY, "GET", 200)
    async with getattr(bulkheads(api), name).slot("198.51.100.7"):
        for address, expected in (("198.51.100.7", 503), ("198.51.100.8", status)):
            sent = {"X-Forwarded-For": address, "Content-Encoding": "gzip" if body else "identity"}
            assert (await api.request(method, path, body, sent)).status == expected


async def test_the_last_records_of_a_heavy_query_wait_for_no_other_slot(serve: Serve) -> None:
    api = await serve(heavy_requests=1)
    await api.person()
    query = Query(filters={"filter": Condition("last_name", Operator.CONTAINS, "opp")})
    listing = Listing(api.repository.snapshot(), GRAPH["person"], query)
    async with listing.chunks() as chunks:
        assert len(await anext(chunks)) == 1
        async with bulkheads(api).heavy_requests, asyncio.timeout(60):
            assert await anext(chunks, None) is None


SLOW_FILTER = [
    {"not": {"name": "serial", "op": "contains", "val": value}}
    for value in (*(f"y{number}" for number in range(59)), "x")
]
"""Matches nothing, which takes 60 comparisons per record to find out."""


@pytest.mark.parametrize(
    "rest", ["&page[size]=1&sort=serial,-id", "&sort=owner.last_name", "&page[number]=1"]
)
async def test_the_query_of_a_disconnected_client_is_stopped_in_mongodb(
    serve: Serve, settings: Settings, database: Database, rest: str
) -> None:
    api = await serve(settings=replace(settings, query_seconds=600.0), heavy_requests=1)
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": "x" * 255, "person": None})
        for number in range(1, 60_001)
    )
    await database.command("profile", 2)
    writer = await send(api, f"/computers?filter={quote(orjson.dumps(SLOW_FILTER))}{rest}")
    assert await eventually(partial(queries_run, database, 1))
    reset(writer)
    assert await eventually(partial(queries_run, database, 0))
    await database.command("profile", 0)
    (profile,) = await database.system.profile.find({"errCode": {"$exists": True}}).to_list(None)
    assert profile["errName"] == "Interrupted"
    assert await eventually(lambda: bulkheads(api).heavy_requests.is_idle)


async def test_a_response_that_does_not_begin_in_time_is_503(serve: Serve) -> None:
    api = await serve(heavy_requests=1, response_seconds=0.5)
    async with bulkheads(api).heavy_requests:
        for path in (HEAVY, f"{HEAVY}&page[size]=1"):
            response = await api.get(path)
            assert (response.status, response.errors) == (503, [(503, "")])
            assert response.document["errors"][0]["code"] == "unavailable"


async def test_neither_a_slow_body_nor_a_slow_reader_counts_towards_the_deadline(
    serve: Serve, database: Database
) -> None:
    seconds = 6.0
    api = await serve(limits=replace(LIMITS, arrival_seconds=60.0), response_seconds=seconds)
    await database.computers.insert_many(
        complete_record({"_id": number, "serial": "x" * 255, "person": None})
        for number in range(1, 30_001)
    )
    created, sender = await asyncio.open_connection("127.0.0.1", api.client.port)
    listed, asker = await asyncio.open_connection("127.0.0.1", api.client.port)
    sender.write(head(len(SMALL)) + SMALL[:-1])
    asker.write(b"GET /computers HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    await asyncio.sleep(seconds + 0.2)
    sender.write(SMALL[-1:])
    assert await created.readuntil(b" 201 ")
    assert b'"id":"30000"' in await listed.read()
    sender.close()
    asker.close()


async def queries_run(database: Database, count: int) -> bool:
    pipeline: list[dict[str, Any]] = [
        {"$currentOp": {}},
        {"$match": {"ns": f"{database.name}.computers"}},
    ]
    return len(await database.client.admin.aggregate(pipeline).to_list(None)) == count


async def send(api: Api, path: str) -> asyncio.StreamWriter:
    """Send a request on a new connection."""
    _, writer = await asyncio.open_connection("127.0.0.1", api.client.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return writer
