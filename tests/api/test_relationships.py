"""Relationships: JSON:API 1.0, Fetching Relationships, Updating Relationships."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry.compound import stream
from registry.storage.reads import listings
from tests.support import Api, Database, Response, identity, stored_records, to_many

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


async def test_to_many_linkage_is_an_array_of_identifiers(api: Api) -> None:
    await fleet(api)
    assert await read(api, COMPUTERS) == {
        "data": [computer("1"), computer("2")],
        "jsonapi": {"version": "1.0"},
        "links": {"self": api.origin + COMPUTERS, "related": f"{api.origin}/persons/1/computers"},
        "meta": {"count": 2},
    }


async def test_to_one_linkage_is_an_identifier(api: Api) -> None:
    await fleet(api)
    assert await read(api, OWNER) == {
        "data": person("1"),
        "jsonapi": {"version": "1.0"},
        "links": {"self": OWNER, "related": "/computers/1/owner"},
    }


async def test_an_empty_relationship_can_be_read(api: Api) -> None:
    await fleet(api)
    assert (await read(api, "/persons/2/relationships/computers"))["data"] == []
    assert (await read(api, "/computers/3/relationships/owner"))["data"] is None


@pytest.mark.parametrize("number", ["9", "x", "0", "01", "-1", str(2**63)])
async def test_the_relationship_of_a_missing_resource_is_not_found(
    api: Api, database: Database, number: str
) -> None:
    await fleet(api)
    before = await stored_records(database)
    for path, data in (
        (f"/persons/{number}/relationships/computers", [computer("1")]),
        (f"/computers/{number}/relationships/owner", person("2")),
    ):
        assert (await api.get(path)).errors == [(404, "")]
        assert (await api.request("HEAD", path)).status == 404
        for method in ("PATCH", "POST", "DELETE") if isinstance(data, list) else ("PATCH",):
            response = await send(api, method, path, data)
            assert (response.status, response.errors) == (404, [(404, "")])
    assert await stored_records(database) == before


@pytest.mark.parametrize(
    "path",
    [
        "/persons/1/relationships/owner",
        "/persons/1/relationships/cars",
        "/persons/1/relationships/",
        "/persons/1/relationships",
        "/computers/1/relationships/computers",
        "/computers/1/relationships/person",
    ],
)
async def test_an_unknown_relationship_is_not_found(api: Api, path: str) -> None:
    await fleet(api)
    for method in ("GET", "PATCH", "POST", "DELETE"):
        assert (await send(api, method, path, [])).status == 404


async def test_the_related_link_does_not_depend_on_how_the_path_is_encoded(api: Api) -> None:
    await fleet(api)
    document = await read(api, "/persons/1/%72elationships/computers?sort=id")
    assert document["links"]["related"].endswith("/persons/1/computers")


@pytest.mark.parametrize("path", [COMPUTERS, OWNER, f"{COMPUTERS}?page[size]=1"])
async def test_head_of_a_relationship_responds_like_get(api: Api, path: str) -> None:
    await fleet(api)
    head, get = await api.request("HEAD", path), await api.get(path)
    assert (head.status, head.document) == (200, None)
    for header in ("Content-Type", "Content-Length", "ETag", "Vary"):
        assert head.headers[header] == get.headers[header]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?include=",
        "?include=computers",
        "?include=computers.owner&fields[computer]=serial&sort=-serial",
        "?include=computers.owner.computers&page[computers.owner.computers][size]=2",
        "?filter[serial][ge]=SN-2&include=computers",
        "?filter[serial]=none&include=computers.owner",
    ],
)
async def test_linkage_read_in_chunks_is_the_same(
    api: Api, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    owner = await api.person()
    for number in range(5):
        await api.computer(f"SN-{number}", owner=owner)
    whole = await api.get(f"{COMPUTERS}{query}")
    monkeypatch.setattr(listings, "CHUNK", 2)
    monkeypatch.setattr(stream, "CHUNK", 2)
    chunked = await api.get(f"{COMPUTERS}{query}")
    assert whole.status == 200
    assert chunked.document == whole.document
    assert chunked.headers["ETag"] == whole.headers["ETag"]


async def test_only_a_nested_include_of_a_relationship_can_be_paged(api: Api) -> None:
    await fleet(api)
    path = f"{OWNER}?include=owner.computers&page[owner.computers][size]=1"
    included = (await read(api, path))["included"]
    assert [identity(resource) for resource in included] == [
        ("person", "1"),
        ("computer", "1"),
    ]
    assert (await api.get(f"{COMPUTERS}?include=computers&page[computers][size]=1")).errors == [
        (400, "page[computers][size]")
    ]


@pytest.mark.parametrize("query", ["page[size]=2", "page[number]=1&page[size]=2"])
async def test_the_next_links_of_linkage_visit_all_pages(api: Api, query: str) -> None:
    await fleet(api, computers=5)
    await send(api, "PATCH", COMPUTERS, [computer(str(number)) for number in range(1, 6)])
    pages = await api.pages(f"{COMPUTERS}?{query}&sort=serial&include=computers")
    assert [page.ids for page in pages] == [["5", "4"], ["3", "2"], ["1"]]
    for page in pages:
        assert {("computer", id_) for id_ in page.ids} == set(page.included)
        assert page.document["links"]["related"].endswith("/persons/1/computers")


async def test_patch_replaces_all_members(api: Api) -> None:
    await fleet(api)
    response = await send(api, "PATCH", COMPUTERS, [computer("2"), computer(3), computer("3")])
    assert (response.status, response.document) == (204, None)
    assert "Content-Type" not in response.headers
    assert await members(api) == ["2", "3"]
    assert await owner(api, "1") is None
    assert (await send(api, "PATCH", COMPUTERS, [])).status == 204
    assert await members(api) == []


async def test_post_adds_members_unless_they_are_present(api: Api) -> None:
    await fleet(api)
    response = await send(api, "POST", COMPUTERS, [computer("2"), computer("3"), computer(3)])
    assert (response.status, response.document) == (204, None)
    assert await members(api) == ["1", "2", "3"]
    for data in ([computer("1"), computer("3")], []):
        assert (await send(api, "POST", COMPUTERS, data)).status == 204
        assert await members(api) == ["1", "2", "3"]


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


async def test_patch_sets_and_clears_the_owner(api: Api) -> None:
    await fleet(api)
    for number in ("2", None, None, "1", "1"):
        response = await send(api, "PATCH", OWNER, number and person(number))
        assert (response.status, response.document) == (204, None)
        assert await owner(api) == number
        assert ("1" in await members(api, "1")) == (number == "1")
        assert ("1" in await members(api, "2")) == (number == "2")


@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_a_member_owned_by_another_person_moves(api: Api, method: str) -> None:
    await fleet(api)
    path = "/persons/2/relationships/computers"
    assert (await send(api, method, path, [computer("2"), computer("3")])).status == 204
    assert (await members(api, "1"), await members(api, "2")) == (["1"], ["2", "3"])


@pytest.mark.parametrize("method", ["PATCH", "POST"])
async def test_each_missing_member_is_reported_and_nothing_changes(
    api: Api, database: Database, method: str
) -> None:
    await fleet(api)
    before = await stored_records(database)
    sent = [computer(number) for number in ("3", "99", "abc", 2**63, "0", "1", -1, "")]
    response = await send(api, method, COMPUTERS, sent)
    assert response.status == 404
    assert response.errors == [(404, f"/data/{index}/id") for index in (1, 2, 3, 4, 6, 7)]
    assert await stored_records(database) == before


async def test_a_missing_owner_is_reported_and_nothing_changes(
    api: Api, database: Database
) -> None:
    await fleet(api)
    before = await stored_records(database)
    missing: list[Any] = ["99", "abc", 2**63, 2**80, 0, ""]
    for number in missing:
        response = await send(api, "PATCH", OWNER, person(number))
        assert (response.status, response.errors) == (404, [(404, "/data/id")])
    assert await stored_records(database) == before


NO_IDS: list[Any] = [1.5, 1.0, -0.5, True, None, [], ["1"], {}, {"$gt": 0}]


async def test_an_id_that_is_neither_a_string_nor_an_integer_is_refused_everywhere(
    api: Api, database: Database
) -> None:
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


@pytest.mark.parametrize("method", ["PATCH", "POST", "DELETE"])
async def test_members_of_the_wrong_type_are_conflicts_with_pointers(
    api: Api, database: Database, method: str
) -> None:
    await fleet(api)
    before = await stored_records(database)
    sent = [computer("1"), person("1"), computer("3"), {"type": "x", "id": "99"}]
    response = await send(api, method, COMPUTERS, sent)
    assert (response.status, response.errors) == (
        409,
        [(409, "/data/1/type"), (409, "/data/3/type")],
    )
    assert await stored_records(database) == before


async def test_an_owner_of_the_wrong_type_is_a_conflict(api: Api, database: Database) -> None:
    await fleet(api)
    before = await stored_records(database)
    response = await send(api, "PATCH", OWNER, computer("2"))
    assert (response.status, response.errors) == (409, [(409, "/data/type")])
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


async def test_query_parameters_are_rejected_when_linkage_is_changed(api: Api) -> None:
    await fleet(api)
    for parameter in ("include", "fields[computer]", "sort", "page[size]", "x"):
        for method in ("PATCH", "POST", "DELETE"):
            response = await send(api, method, f"{COMPUTERS}?{parameter}=1", [computer("1")])
            assert (response.status, response.errors) == (400, [(400, parameter)])
        response = await send(api, "PATCH", f"{OWNER}?{parameter}=1", None)
        assert (response.status, response.errors) == (400, [(400, parameter)])
    assert await members(api) == ["1", "2"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        (COMPUTERS, "DELETE, GET, HEAD, OPTIONS, PATCH, POST"),
        (OWNER, "GET, HEAD, OPTIONS, PATCH"),
    ],
)
async def test_a_relationship_allows_only_the_methods_of_its_kind(
    api: Api, path: str, allowed: str
) -> None:
    await fleet(api)
    response = await api.request("OPTIONS", path)
    assert (response.status, response.headers["Allow"]) == (204, allowed)
    for method in {"PUT", "POST", "DELETE"} - set(allowed.split(", ")):
        response = await send(api, method, path, None)
        assert (response.status, response.headers["Allow"]) == (405, allowed)
    assert await owner(api) == "1"


async def test_a_dangling_owner_key_is_shown_as_null_linkage(api: Api, database: Database) -> None:
    await fleet(api)
    await database.computers.update_one({"_id": 1}, {"$set": {"person": 99}})
    assert (await read(api, OWNER))["data"] is None
    assert (await read(api, f"{OWNER}?include=owner"))["included"] == []
    assert (await send(api, "PATCH", OWNER, person("1"))).status == 204
    assert await owner(api) == "1"


async def test_concurrently_added_members_are_all_stored(api: Api) -> None:
    count = 20
    await fleet(api, computers=count)
    responses = await asyncio.gather(
        *(send(api, "POST", COMPUTERS, [computer(number)]) for number in range(1, count + 1, 2)),
        *(
            send(api, "PATCH", f"/computers/{number}/relationships/owner", person("1"))
            for number in range(2, count + 1, 2)
        ),
    )
    assert {response.status for response in responses} == {204}
    assert await members(api) == [str(number) for number in range(1, count + 1)]


async def test_a_member_claimed_concurrently_has_one_owner(api: Api) -> None:
    await fleet(api, persons=6)
    paths = [f"/persons/{number}/relationships/computers" for number in range(1, 7)]
    responses = await asyncio.gather(
        *(send(api, "POST", path, [computer("1")]) for path in paths),
        *(send(api, "PATCH", OWNER, person(number)) for number in range(1, 7)),
    )
    assert {response.status for response in responses} == {204}
    owners = [str(number) for number in range(1, 7) if "1" in await members(api, str(number))]
    assert owners == [await owner(api)]


async def test_many_members_are_added_and_removed_in_one_request(
    api: Api, database: Database
) -> None:
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
