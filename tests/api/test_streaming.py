"""Streamed collections of more than one chunk."""

import asyncio
import csv
import io
import random
from collections.abc import Iterable
from typing import Any

import pytest
from aiohttp import ClientPayloadError, web
from pymongo.errors import OperationFailure

from registry.http import sending
from tests.conftest import Serve
from tests.support import Api, Database, complete_record, identity, new, set_counters, to_many

CHUNK = 1_000

PERSONS = 2 * CHUNK + 200
COMPUTERS = 3 * CHUNK
SNAPSHOT_TOO_OLD = 239
CSV = {"Accept": "text/csv"}


@pytest.fixture
async def fleet(api: Api, database: Database) -> Api:
    """Persons, some with many computers, and computers, some with an owner that does not exist."""
    chance = random.Random(7)  # noqa: S311 - the same data in every run
    await database.persons.insert_many(
        complete_record(
            {
                "_id": number,
                "first_name": f"F{number}",
                "last_name": f"L{number % 2}",
                "email": None,
            }
        )
        for number in range(1, PERSONS + 1)
    )
    await database.computers.insert_many(
        complete_record(
            {
                "_id": number,
                "serial": f"S{number % 2}",
                "person": chance.choice([None, PERSONS + 7, 5, 5, 5, chance.randint(1, PERSONS)]),
            }
        )
        for number in range(1, COMPUTERS + 1)
    )
    await set_counters(database)
    return api


@pytest.mark.parametrize(
    "path",
    [
        "/persons?include=computers",
        "/computers?include=owner",
        "/persons?filter[last_name]=L1&include=computers.owner.computers",
        "/computers?filter[serial]=S1&include=owner.computers.owner&sort=-id",
        "/persons?include=computers&page[computers][size]=2",
        "/persons/5/computers?include=owner.computers",
        "/persons?withCount=computers,assignments",
        "/computers?include=owner&withCount=owner.computers",
    ],
)
async def test_a_stream_equals_its_pages(fleet: Api, path: str) -> None:
    whole = (await fleet.get(path)).document
    expected = await fleet.pages(f"{path}&page[size]=500")
    assert whole["data"] == [resource for response in expected for resource in response.data]
    assert len(whole["data"]) > CHUNK
    assert whole["meta"] == {"count": len(whole["data"])}
    primary = {identity(resource) for resource in whole["data"]}
    included = {identity(resource): resource for resource in whole.get("included", ())}
    assert len(included) == len(whole.get("included", ()))
    of_pages = {
        identity(resource): resource
        for response in expected
        for resource in response.document.get("included", ())
        if identity(resource) not in primary
    }
    assert included.keys() == of_pages.keys()
    for name, page in of_pages.items():
        assert included[name]["attributes"] == page["attributes"]
        relationships = included[name].get("relationships", {})
        assert page.get("relationships", {}).items() <= relationships.items()


@pytest.mark.parametrize(
    ("path", "is_streamed"),
    [
        ("/persons/5?include=computers", True),
        ("/persons/5?include=computers.owner.computers&fields[computer]=serial", True),
        ("/persons/5?include=computers.owner&page[computers][size]=3", False),
        ("/persons?include=computers&page[size]=20", True),
        ("/persons?include=computers&page[size]=50&sort=-id", True),
        ("/persons?include=computers&page[size]=20&page[computers][size]=4", True),
        ("/persons?include=computers&filter[id][le]=20", True),
        ("/persons/6?include=computers", False),
        ("/computers?include=owner.computers&page[size]=9", True),
        ("/computers/{of_5}/owner?include=computers.owner", True),
        ("/computers/{of_5}/relationships/owner?include=owner.computers", True),
        ("/persons/5/relationships/computers", True),
        ("/persons/5/relationships/computers?include=computers.owner&sort=-serial", True),
        ("/persons/5/relationships/computers?include=computers.owner.computers&page[size]=4", True),
    ],
)
async def test_a_document_with_many_related_resources_is_streamed_completely(
    fleet: Api, serve: Serve, path: str, *, is_streamed: bool
) -> None:
    path = path.format(of_5=(await fleet.get("/persons/5/computers?page[size]=1")).data[0]["id"])
    whole = await fleet.get(path, Host="h")
    streamed = await (await serve(members=7, chunk=5, kept_records=20)).get(path, Host="h")
    assert ("ETag" not in streamed.headers) == is_streamed
    assert "Registry-Position" in streamed.headers
    document, expected = streamed.document, whole.document
    included, expected_included = document.pop("included", []), expected.pop("included", [])
    assert sorted(included, key=identity) == sorted(expected_included, key=identity)
    assert document == expected


@pytest.mark.usefixtures("fleet")
async def test_concurrent_requests_are_complete_beside_one_for_many_related_resources(
    serve: Serve,
) -> None:
    api, lone = await serve(members=20), await serve()
    paths = [f"/persons/{number}?include=computers" for number in (5, *range(1, 16), 5)]
    paths.append("/persons?include=computers&page[size]=12")
    expected = [(await lone.get(path)).document["data"] for path in paths]
    for _ in range(3):
        found = await asyncio.gather(*map(api.get, paths))
        assert [response.document["data"] for response in found] == expected


@pytest.mark.usefixtures("fleet")
async def test_the_response_to_a_write_shows_many_related_resources(serve: Serve) -> None:
    api, many = await serve(members=7), [str(number) for number in range(1, 31)]
    path = "/persons/6?include=computers"
    response = await api.patch(path, new("person", {"computers": to_many(*many)}))
    assert response.status == 200
    assert [resource["id"] for resource in response.document["included"]] == many
    assert response.data == (await api.get(path)).data


async def insert_long_names(database: Database, ids: Iterable[int]) -> None:
    await database.persons.insert_many(
        complete_record({"_id": id_, "first_name": "A" * 255, "last_name": "B" * 255})
        for id_ in ids
    )


async def test_a_stream_is_written_in_parts(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that a client may take applies to each of them."""
    parts: list[int] = []
    write = web.StreamResponse.write

    async def record(response: web.StreamResponse, data: bytes) -> None:
        parts.append(len(data))
        await write(response, data)

    await insert_long_names(database, range(1, CHUNK))
    monkeypatch.setattr(web.StreamResponse, "write", record)
    response = await api.get("/persons", **{"Accept-Encoding": "identity"})
    assert len(response.ids) == CHUNK - 1
    assert sum(parts) > max(parts) == sending.MAX_WRITE


@pytest.mark.parametrize(
    "path",
    [
        "/computers?sort=-id",
        "/computers?include=owner&sort=owner.last_name,serial",
        "/computers?filter[serial]=S1&fields[computer]=serial,created_at&include=owner",
        "/computers?include=owner&fields[person]=email,id&filter[owner]=null",
        "/persons/5/computers?include=owner&fields[computer]=owner&fields[person]=full_name",
        "/persons?filter[id]=0",
    ],
)
async def test_a_table_shows_what_the_document_shows(fleet: Api, path: str) -> None:
    document = (await fleet.get(path)).document
    included = {identity(item): item for item in document.get("included", ())}

    def shown(resource: Any, column: str) -> str:
        relationship, _, name = column.rpartition(".")
        if relationship:
            target = resource["relationships"][relationship]["data"]
            resource = target and included[identity(target)]
        value = resource and (resource["id"] if name == "id" else resource["attributes"][name])
        return "" if value is None else str(value)

    text = (await fleet.fetch(path, **CSV)).text.removeprefix("\ufeff")
    columns, *rows = csv.reader(io.StringIO(text, newline=""))
    assert rows == [[shown(item, column) for column in columns] for item in document["data"]]


@pytest.mark.parametrize(
    ("path", "accept"),
    [("/persons", {}), ("/persons?include=computers", {}), ("/persons", CSV)],
)
async def test_a_disconnect_ends_the_query(
    fleet: Api, database: Database, path: str, accept: dict[str, str]
) -> None:
    await insert_long_names(database, range(PERSONS + 1, 30_000))
    async with fleet.client.get(path, headers=accept) as response:
        await response.content.read(1_000)
        await until_open(True, database)
    await until_open(False, database)


async def until_open(wanted: bool, database: Database) -> None:
    """Wait until MongoDB has open cursors of the test, or has none."""
    stages: list[dict[str, Any]] = [
        {"$currentOp": {"idleCursors": True}},
        {"$match": {"cursor": {"$exists": True}, "ns": {"$regex": f"^{database.name}"}}},
    ]
    async with asyncio.timeout(60):
        admin = database.client.admin
        while wanted != bool(await admin.aggregate(stages).to_list(None)):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.02)


async def test_a_late_error_truncates_the_response(fleet: Api, database: Database) -> None:
    await database.computers.update_one(
        {"_id": COMPUTERS},
        {"$set": {"serial": 5, "person": PERSONS}},
        bypass_document_validation=True,
    )
    response = await fleet.client.get("/computers", headers=CSV)
    assert response.status == 200
    with pytest.raises(Exception, match=r"payload|disconnect|reset"):
        await response.read()
    assert (await fleet.get("/persons/1")).status == 200


async def snapshot_expires(database: Database) -> None:
    """Wait until the current snapshot is too old to be read."""
    command: dict[str, Any] = {"find": "persons", "limit": 1, "readConcern": {"level": "snapshot"}}
    time = (await database.command(command))["cursor"]["atClusterTime"]
    command["readConcern"] = {"level": "snapshot", "atClusterTime": time}
    while True:  # every write moves the time of the oldest snapshot
        await database.persons.update_one({"_id": 1}, {"$inc": {"writes": 1}})
        try:
            await database.command(command)
        except OperationFailure as error:
            if error.code == SNAPSHOT_TOO_OLD:
                return
            raise


async def test_a_stream_ends_with_its_snapshot(api: Api, database: Database) -> None:
    await insert_long_names(database, range(1, 30 * CHUNK))
    window = "minSnapshotHistoryWindowInSeconds"
    admin = database.client.admin
    seconds = (await admin.command({"getParameter": 1, window: 1}))[window]
    async with api.client.get("/persons") as response:
        assert response.status == 200
        await admin.command({"setParameter": 1, window: 0})
        try:
            await snapshot_expires(database)
            with pytest.raises(ClientPayloadError):
                await response.read()
        finally:
            await admin.command({"setParameter": 1, window: seconds})
