"""Relationships: JSON:API 1.0, Fetching Relationships, Updating Relationships."""

from __future__ import annotations

from typing import Any

import pytest

from registry.compound import stream
from registry.storage.reads import listings
from tests.support import Api, Database, Response, stored_records, to_many

COMPUTERS = "/persons/1/relationships/computers"
OWNER = "/computers/1/relationships/owner"


def person(number: Any) -> dict[str, Any]:
    return {"type": "person", "id": number}


def computer(number: Any) -> dict[str, Any]:
    return {"type": "computer", "id": number}


async def read(api: Api, path: str) -> Any:
    response = await api.get(path)
    assert response.status == 200
    return response.document


async def members(api: Api, number: str = "1") -> list[str]:
    document = await read(api, f"/persons/{number}/relationships/computers")
    assert all(identifier["type"] == "computer" for identifier in document["data"])
    return [identifier["id"] for identifier in document["data"]]


async def owner(api: Api, number: str = "1") -> str | None:
    data = (await read(api, f"/computers/{number}/relationships/owner"))["data"]
    return str(data["id"]) if data else None


async def send(api: Api, method: str, path: str, data: Any) -> Response:
    return await api.request(method, path, {"data": data})


async def fleet(api: Api, persons: int = 2, computers: int = 4) -> None:
    """Create persons and computers; the first person owns the first two computers."""
    for _ in range(persons):
        await api.person()
    for number in range(computers):
        await api.computer(f"SN-{9 - number}", owner="1" if number < 2 else None)


async def test_linkage_can_be_read_in_chunks(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = await api.person()
    for number in range(5):
        await api.computer(f"SN-{number}", owner=owner)
    queries = [
        *("", "?include=", "?include=computers", "?filter[serial][ge]=SN-2&include=computers"),
        "?include=computers.owner&fields[computer]=serial&sort=-serial",
        "?include=computers.owner.computers&page[computers.owner.computers][size]=2",
        "?filter[serial]=none&include=computers.owner",
    ]
    whole = [await api.get(f"{COMPUTERS}{query}") for query in queries]
    for module in (listings, stream):
        monkeypatch.setattr(module, "CHUNK", 2)
    for query, one in zip(queries, whole, strict=True):
        chunked = await api.get(f"{COMPUTERS}{query}")
        assert (one.status, chunked.document) == (200, one.document), query
        assert chunked.headers["ETag"] == one.headers["ETag"]


@pytest.mark.parametrize("query", ["page[size]=2", "page[number]=1&page[size]=2"])
async def test_the_next_links_of_linkage_visit_all_pages(api: Api, query: str) -> None:
    await fleet(api, computers=5)
    await send(api, "PATCH", COMPUTERS, [computer(str(number)) for number in range(1, 6)])
    pages = await api.pages(f"{COMPUTERS}?{query}&sort=serial&include=computers")
    assert [page.ids for page in pages] == [["5", "4"], ["3", "2"], ["1"]]
    for page in pages:
        assert {("computer", id_) for id_ in page.ids} == set(page.included)
        assert page.document["links"]["related"].endswith("/persons/1/computers")


async def test_delete_removes_only_the_listed_members(api: Api) -> None:
    await fleet(api)
    await send(api, "POST", "/persons/2/relationships/computers", [computer("3")])
    others = [computer(number) for number in ("3", "4", "99", "abc", "0", 2**70)]
    response = await send(api, "DELETE", COMPUTERS, [computer("1"), *others])
    assert (response.status, response.document) == (204, None)
    assert await members(api) == ["2"]
    assert await members(api, "2") == ["3"]
    assert (await send(api, "DELETE", COMPUTERS, others)).status == 204
    assert (await send(api, "DELETE", COMPUTERS, [])).status == 204
    assert await members(api) == ["2"]
    assert len((await api.get("/computers")).data) == 4


MISSING: list[Any] = ["99", "abc", 2**63, 2**64, 2**80, 1e300, "0", 0, -1, "-1", "", "1.0"]


async def test_each_missing_member_is_reported(api: Api, database: Database) -> None:
    await fleet(api)
    before = await stored_records(database)
    sent = [computer("3"), *map(computer, MISSING), computer("1")]
    indexes = range(1, len(MISSING) + 1)
    for method in ("PATCH", "POST"):
        response = await send(api, method, COMPUTERS, sent)
        assert response.errors == [(404, f"/data/{index}/id") for index in indexes]
    data = {"type": "person", "attributes": {"first_name": "Changed"}}
    data |= {"relationships": {"computers": {"data": sent}}}
    response = await send(api, "PATCH", "/persons/1", data)
    pointer = "/data/relationships/computers/data"
    assert response.errors == [(404, f"{pointer}/{index}/id") for index in indexes]
    for number in MISSING:
        assert (await send(api, "PATCH", OWNER, person(number))).errors == [(404, "/data/id")]
    assert await stored_records(database) == before


NO_IDS: list[Any] = [1.5, 1.0, -0.5, True, None, [], ["1"], {}, {"$gt": 0}]


async def test_an_id_is_a_string_or_an_integer(api: Api, database: Database) -> None:
    await fleet(api)
    before = await stored_records(database)
    for number in NO_IDS:
        sent = [computer("1"), computer(number), {"type": "computer"}]
        for method in ("PATCH", "POST", "DELETE"):
            response = await send(api, method, COMPUTERS, sent)
            assert response.errors == [(400, "/data/1/id"), (400, "/data/2/id")]
        assert (await send(api, "PATCH", OWNER, person(number))).errors == [(400, "/data/id")]
        owner = {"owner": {"data": person(number)}}
        for method, path in (("PATCH", "/computers/1"), ("POST", "/computers")):
            data = {"type": "computer", "attributes": {"serial": "x"}, "relationships": owner}
            response = await send(api, method, path, data)
            assert response.errors == [(400, "/data/relationships/owner/data/id")]
    assert await stored_records(database) == before


async def test_members_of_the_wrong_type_are_conflicts(api: Api, database: Database) -> None:
    await fleet(api)
    before = await stored_records(database)
    sent = [computer("1"), person("1"), computer("3"), {"type": "x", "id": "99"}]
    for method in ("PATCH", "POST", "DELETE"):
        response = await send(api, method, COMPUTERS, sent)
        assert response.errors == [(409, "/data/1/type"), (409, "/data/3/type")]
    assert (await send(api, "PATCH", OWNER, computer("2"))).errors == [(409, "/data/type")]
    assert await stored_records(database) == before


TO_MANY = [
    *((body, "") for body in (b"", b"{", b"[]", b"null")),
    *((body, "/data") for body in (b"{}", b'{"meta": {}}', b'{"data": null}', b'{"data": "1"}')),
    (b'{"data": {"type": "computer", "id": "1"}}', "/data"),
    *((b'{"data": [%s]}' % member, "/data/0") for member in (b"null", b'"1"', b"[]")),
    *(
        (b'{"data": [{"type": "computer"%s}]}' % member, "/data/0/id")
        for member in (
            b"",
            b', "lid": "x"',
            b', "id": null',
            b', "id": true',
            b', "id": {"$ne": 0}',
        )
    ),
    (b'{"data": [{"type": "computer", "id": "1"}, {"id": "2"}]}', "/data/1/type"),
    (b'{"data": [{"type": {"$ne": 0}, "id": "2"}]}', "/data/0/type"),
]
TO_ONE = [
    (b"", ""),
    (b"{}", "/data"),
    *((b'{"data": %s}' % data, "/data") for data in (b"[]", b'"2"', b"false")),
    (b'{"data": [{"type": "person", "id": "2"}]}', "/data"),
    (b'{"data": {}}', "/data/type"),
    (b'{"data": {"type": "person"}}', "/data/id"),
    (b'{"data": {"type": "person", "id": ["2"]}}', "/data/id"),
    (b'{"data": {"id": "2"}}', "/data/type"),
]


async def test_malformed_linkage_is_reported_with_its_pointer(api: Api) -> None:
    await fleet(api)
    for body, pointer in TO_MANY:
        for method in ("PATCH", "POST", "DELETE"):
            response = await api.request(method, COMPUTERS, body)
            assert (response.status, response.errors) == (400, [(400, pointer)]), body
    for body, pointer in TO_ONE:
        response = await api.request("PATCH", OWNER, body)
        assert (response.status, response.errors[0]) == (400, (400, pointer)), body
    assert await members(api) == ["1", "2"]


async def test_many_members_are_changed_in_one_request(api: Api, database: Database) -> None:
    count = 5_000
    await api.person()
    await database.computers.insert_many(
        {"_id": number, "serial": "x"} for number in range(1, count + 1)
    )
    identifiers = to_many(*map(str, range(1, count + 1)))["data"]
    assert (await send(api, "POST", COMPUTERS, identifiers)).status == 204
    assert len(await members(api)) == count
    assert (await send(api, "DELETE", COMPUTERS, identifiers[1:])).status == 204
    assert await members(api) == ["1"]
