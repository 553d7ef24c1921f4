"""Relationships: JSON:API 1.0, Fetching Relationships, Updating Relationships.

`tests/consistency/test_model.py` shows valid changes.
"""

from typing import Any

import pytest

from tests.conftest import Serve
from tests.support import Api, Database, identifier, new, stored_records, to_one

COMPUTERS = "/persons/1/relationships/computers"
OWNER = "/computers/1/relationships/owner"


def person(id_: Any) -> dict[str, Any]:
    return identifier("person", id_)


def computer(id_: Any) -> dict[str, Any]:
    return identifier("computer", id_)


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Two persons, the first of whom owns the first two of four computers."""
    for _ in range(2):
        await api.person()
    for number in range(4):
        await api.computer(f"SN-{9 - number}", owner="1" if number < 2 else None)
    return api


async def test_linkage_can_be_read_in_chunks(fleet: Api, serve: Serve) -> None:
    await fleet.set_computers("1", "1", "2", "3", "4")
    queries = [
        *("", "?include=", "?include=computers", "?filter[serial][ge]=SN-7&include=computers"),
        "?include=computers.owner&fields[computer]=serial&sort=-serial",
        "?include=computers.owner.computers&page[computers.owner.computers][size]=2",
        "?filter[serial]=none&include=computers.owner",
    ]
    other = await serve(few_records=1, chunk=2)
    for query in queries:
        whole, chunked = [await api.get(f"{COMPUTERS}{query}", Host="h") for api in (fleet, other)]
        assert (whole.status, chunked.document) == (200, whole.document), query


@pytest.mark.parametrize("query", ["page[size]=3", "page[number]=1&page[size]=3"])
async def test_the_next_links_of_linkage_visit_all_pages(fleet: Api, query: str) -> None:
    await fleet.set_computers("1", "1", "2", "3", "4")
    pages = await fleet.pages(f"{COMPUTERS}?{query}&sort=serial&include=computers")
    assert [page.ids for page in pages] == [["4", "3", "2"], ["1"]]
    for page in pages:
        assert {("computer", id_) for id_ in page.ids} == set(page.included)
        assert page.document["links"]["related"].endswith("/persons/1/computers")


async def test_delete_removes_only_the_listed_members(fleet: Api) -> None:
    other = "/persons/2/relationships/computers"
    await fleet.post(other, [computer("3")])
    others = [computer(id_) for id_ in ("3", "4", "99", "abc", "0", 2**70)]
    for sent in ([computer("1"), *others], others, []):
        response = await fleet.delete(COMPUTERS, sent)
        assert (response.status, response.document) == (204, None)
        assert ((await fleet.get(COMPUTERS)).ids, (await fleet.get(other)).ids) == (["2"], ["3"])
    assert len((await fleet.get("/computers")).data) == 4


MISSING: list[Any] = ["99", "abc", 2**63, 2**64, 2**80, 1e300, "0", 0, -1, "-1", "", "1.0"]


async def test_each_missing_member_is_reported(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    sent = [computer("3"), *map(computer, MISSING), computer("1")]
    for method, path, data, pointer in (
        *((method, COMPUTERS, sent, "/data") for method in ("PATCH", "POST")),
        (
            *("PATCH", "/persons/1", new("person", {"computers": {"data": sent}}, last_name="X")),
            "/data/relationships/computers/data",
        ),
    ):
        response = await fleet.send(method, path, data)
        assert response.errors == [(404, f"{pointer}/{n}/id") for n in range(1, len(MISSING) + 1)]
    for id_ in MISSING:
        assert (await fleet.patch(OWNER, person(id_))).errors == [(404, "/data/id")]
    assert await stored_records(database) == before


NO_IDS: list[Any] = [1.5, 1.0, -0.5, True, None, [], ["1"], {}, {"$gt": 0}]


async def test_an_id_is_a_string_or_an_integer(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for id_ in NO_IDS:
        for method in ("PATCH", "POST", "DELETE"):
            sent = [computer("1"), computer(id_), {"type": "computer"}]
            response = await fleet.send(method, COMPUTERS, sent)
            assert response.errors == [(400, "/data/1/id"), (400, "/data/2/id")]
        assert (await fleet.patch(OWNER, person(id_))).errors == [(400, "/data/id")]
        for method, path in (("PATCH", "/computers/1"), ("POST", "/computers")):
            data = new("computer", {"owner": {"data": person(id_)}}, serial="x")
            response = await fleet.send(method, path, data)
            assert response.errors == [(400, "/data/relationships/owner/data/id")]
    assert await stored_records(database) == before


async def test_members_of_the_wrong_type_are_conflicts(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    sent = [computer("1"), person("1"), computer("3"), identifier("x", "99")]
    for method in ("PATCH", "POST", "DELETE"):
        response = await fleet.send(method, COMPUTERS, sent)
        assert response.errors == [(409, "/data/1/type"), (409, "/data/3/type")]
    assert (await fleet.patch(OWNER, computer("2"))).errors == [(409, "/data/type")]
    assert await stored_records(database) == before


TO_MANY: list[tuple[Any, str]] = [
    *[(b"", ""), (b"{", ""), ([], ""), (b"null", "")],
    *[({}, "/data"), ({"meta": {}}, "/data"), (to_one(None), "/data"), ({"data": "1"}, "/data")],
    (to_one("1", "computer"), "/data"),
    *[({"data": [None]}, "/data/0"), ({"data": ["1"]}, "/data/0"), ({"data": [[]]}, "/data/0")],
    *(
        ({"data": [value]}, "/data/0/id")
        for value in ({"type": "computer"}, {"type": "computer", "lid": "x"})
    ),
    ({"data": [computer("1"), {"id": "2"}]}, "/data/1/type"),
    ({"data": [identifier({"$ne": 0}, "2")]}, "/data/0/type"),
]
TO_ONE: list[tuple[Any, str]] = [
    *((b"", ""), ({}, "/data")),
    *(({"data": data}, "/data") for data in ([], "2", False, [person("2")])),
    *(({"data": data}, "/data/type") for data in ({}, {"id": "2"})),
    ({"data": {"type": "person"}}, "/data/id"),
]


async def test_malformed_linkage_is_reported_with_its_pointer(fleet: Api) -> None:
    for method, path, cases in (
        *((method, COMPUTERS, TO_MANY) for method in ("PATCH", "POST", "DELETE")),
        ("PATCH", OWNER, TO_ONE),
    ):
        for body, pointer in cases:
            response = await fleet.request(method, path, body)
            assert (response.status, response.errors[0]) == (400, (400, pointer)), body
    assert (await fleet.get(COMPUTERS)).ids == ["1", "2"]
