"""Related resources: JSON:API 1.0, Related Resource Links and Fetching Resources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import Api, Database

COMPUTERS = "/persons/1/computers"
OWNER = "/computers/1/owner"


async def fleet(api: Api) -> None:
    """Create two persons, with two computers and one computer, and an unowned computer."""
    await api.person("Grace", "Hopper")
    await api.person("Ada", "Lovelace")
    for serial, owner in (("SN-9", "1"), ("SN-8", "2"), ("SN-7", "1"), ("SN-6", None)):
        await api.computer(serial, owner=owner)


async def read_null(api: Api, path: str) -> Any:
    """Return a document after checking that its primary data is null."""
    response = await api.get(path)
    assert (response.status, response.data) == (200, None)
    return response.document


async def test_a_related_collection_is_read_like_a_collection(api: Api) -> None:
    await fleet(api)
    response = await api.get(COMPUTERS)
    assert response.status == 200
    computers = (await api.get("/computers")).data
    assert response.document == {
        "data": [computers[0], computers[2]],
        "jsonapi": {"version": "1.0"},
        "links": {"self": str(api.client.make_url(COMPUTERS))},
        "meta": {"count": 2},
    }


async def test_a_related_resource_is_read_like_a_resource(api: Api) -> None:
    await fleet(api)
    response = await api.get(OWNER)
    assert response.status == 200
    assert response.document == {
        "data": (await api.get("/persons/1")).data,
        "jsonapi": {"version": "1.0"},
        "links": {"self": OWNER},
    }


async def test_the_owner_of_an_unowned_computer_is_null(api: Api) -> None:
    await fleet(api)
    assert await read_null(api, "/computers/4/owner") == {
        "data": None,
        "jsonapi": {"version": "1.0"},
        "links": {"self": "/computers/4/owner"},
    }
    path = "/computers/4/owner?include=computers.owner&fields[person]=email"
    assert (await read_null(api, path))["included"] == []


async def test_the_computers_of_a_person_without_computers_are_an_empty_array(api: Api) -> None:
    await api.person()
    for query in ("", "?include=owner", "?page[size]=1", "?page[number]=1", "?sort=-serial"):
        response = await api.get(COMPUTERS + query)
        assert (response.status, response.data) == (200, [])
        assert response.document["meta"]["count"] == 0


@pytest.mark.parametrize("number", ["9", "x", "0", "01", "-1", str(2**63)])
async def test_the_related_resources_of_a_missing_resource_are_not_found(
    api: Api, number: str
) -> None:
    await fleet(api)
    for path in (f"/persons/{number}/computers", f"/computers/{number}/owner"):
        for query in ("", "?include=", "?fields[person]=email"):
            response = await api.get(path + query)
            assert (response.status, response.errors) == (404, [(404, "")])
        assert (await api.request("HEAD", path)).status == 404


async def test_an_owner_that_no_longer_exists_is_null(api: Api, database: Database) -> None:
    await fleet(api)
    await database.computers.update_one({"_id": 1}, {"$set": {"person": 99}})
    await read_null(api, OWNER)
    assert (await api.get("/persons/99/computers")).status == 404


@pytest.mark.parametrize("query", ["page[size]=2", "page[number]=1&page[size]=2"])
async def test_the_next_links_of_a_related_collection_visit_all_pages(api: Api, query: str) -> None:
    await api.person()
    for number in range(5):
        await api.computer(f"SN-{9 - number}", owner="1")
    await api.computer("SN-0")
    query += "&sort=serial&include=owner&filter[serial][ne]=SN-7"
    pages = await api.pages(f"{COMPUTERS}?{query}")
    assert [page.ids for page in pages] == [["5", "4"], ["2", "1"]]
    assert [page.included for page in pages] == [[("person", "1")]] * 2


@pytest.mark.parametrize("path", [COMPUTERS, OWNER])
async def test_related_resources_are_read_only(api: Api, path: str) -> None:
    await fleet(api)
    response = await api.request("OPTIONS", path)
    assert (response.status, response.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for method in ("POST", "PATCH", "DELETE", "PUT"):
        response = await api.request(method, path, {"data": None})
        assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


@pytest.mark.parametrize("path", [COMPUTERS, f"{COMPUTERS}?page[size]=1", OWNER])
async def test_head_of_related_resources_responds_like_get(api: Api, path: str) -> None:
    await fleet(api)
    head, get = await api.request("HEAD", path), await api.get(path)
    assert (head.status, head.document) == (200, None)
    for header in ("Content-Type", "Content-Length", "ETag", "Vary"):
        assert head.headers.get(header) == get.headers.get(header)
