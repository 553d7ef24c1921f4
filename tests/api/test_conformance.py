"""Conformance to JSON:API 1.0 on every route and in every document.

`tests/statements.md` lists all statements, and the tests of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from yarl import URL

from registry.http.views.document_view import DocumentView
from tests.support import (
    MEDIA_TYPE,
    Api,
    linkage_of,
    primary_data,
    to_many,
)

GRACE = {"first_name": "Grace", "last_name": "Hopper"}
PARAMETERS = f"{MEDIA_TYPE}; charset=utf-8"

STARTS = (
    "/persons",
    "/computers",
    "/persons?include=computers.owner",
    "/computers?include=owner&fields[person]=full_name,email",
    "/persons?filter[id]=2",
    "/persons?filter[id]=99",
    "/persons?sort=-email&page[size]=1",
    "/computers?page[number]=1&page[size]=2&include=owner.computers",
    "/persons?include=computers&page[computers][size]=1",
    "/persons/1/relationships/computers?include=computers.owner",
    "/persons/1/relationships/computers?page[size]=1",
    "/persons/1/computers?include=owner",
    "/computers/1/relationships/owner?include=owner",
    "/computers/1/owner?include=computers",
)
"""Following links from these paths reaches every route that can be read."""

BODIES = (
    ("POST", "/persons", {"type": "person", "attributes": GRACE}),
    ("POST", "/computers", {"type": "computer", "attributes": {"serial": "SN-9"}}),
    ("PATCH", "/persons/1", {"type": "person", "relationships": {"computers": to_many("1")}}),
    ("PATCH", "/computers/1", {"type": "computer", "attributes": {"serial": "SN-9"}}),
    ("PATCH", "/persons/1/relationships/computers", to_many("3")["data"]),
    ("POST", "/persons/1/relationships/computers", to_many("3")["data"]),
    ("DELETE", "/persons/1/relationships/computers", to_many("1")["data"]),
    ("PATCH", "/computers/1/relationships/owner", None),
)
"""One successful request per path and method with primary data."""


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Grace owns computers 1 and 2, Ada owns none; nobody owns 3."""
    await api.person("Grace", email="grace@example.com")
    await api.person("Ada")
    for owner in ("1", "1", None):
        await api.computer(owner=owner)
    return api


async def fetch(api: Api, method: str, path: str, data: Any = None, **headers: str) -> Any:
    """Return the status and the document, which `Api` checks; only a 204 has none.

    path: relative, or an absolute URL taken from a link.
    """
    target = str(URL(path, encoded=True).relative()) if "://" in path else path
    body = None if method == "GET" else {"data": data}
    response = await api.request(method, target, body, headers)
    assert (response.document is None) == (response.status == 204)
    return response.status, response.document


def links_of(part: Any) -> Iterator[str]:
    """Yield every link of a document, at any depth."""
    for item in part if isinstance(part, list) else []:
        yield from links_of(item)
    for name, value in part.items() if isinstance(part, dict) else []:
        if name == "links":
            yield from (link for link in value.values() if link is not None)
        else:
            yield from links_of(value)


def check_primary_data(path: str, document: Any) -> None:
    """Check that primary data has the form, single or list, and the members the path requires."""
    match URL(path).path.split("/")[1:]:
        case [_, _, "relationships", name]:
            members, many = {"type", "id"}, name == "computers"
        case [_, _, name]:
            members, many = {"type", "id", "attributes", "links"}, name == "computers"
        case parts:
            members, many = {"type", "id", "attributes", "links"}, len(parts) == 1
    assert isinstance(document["data"], list) == many
    for resource in primary_data(document):
        assert resource.keys() - {"relationships"} == members


async def test_every_link_leads_to_a_valid_document(fleet: Api) -> None:
    routes = {
        route.resource
        for route in fleet.client.app.router.routes()
        if isinstance(route.handler, type)
        and issubclass(route.handler, DocumentView)
        and hasattr(route.handler, "get")
    }
    assert routes
    seen: set[str] = set()
    pending = list(STARTS)
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        status, document = await fetch(fleet, "GET", path)
        assert (path, status) == (path, 200)
        check_primary_data(path, document)
        pending += links_of(document)
    visited = {URL(path).path for path in seen}
    for resource in routes:
        path = resource.canonical  # type: ignore[union-attr] # a view has a path
        pattern = re.escape(path).replace(r"\{id\}", "[0-9]+")
        assert any(re.fullmatch(pattern, url) for url in visited), pattern


@pytest.mark.parametrize(("method", "path", "data"), BODIES)
async def test_every_write_returns_a_valid_document_or_no_content(
    fleet: Api, method: str, path: str, data: Any
) -> None:
    status, document = await fetch(fleet, method, path, data)
    assert status == (204 if "/relationships/" in path else 201 if method == "POST" else 200)
    if document is not None:
        assert document["data"]["type"] == data["type"]


@pytest.mark.parametrize(
    ("method", "path", "data", "headers", "status"),
    [
        ("GET", "/persons?x=1&sort=x&include=x", None, {}, 400),
        ("GET", "/persons?page[size]=99999", None, {}, 400),
        ("GET", "/persons/9", None, {}, 404),
        ("GET", "/persons/9/computers", None, {}, 404),
        ("GET", "/persons/1/relationships/cars", None, {}, 404),
        ("GET", "/nothing", None, {}, 404),
        ("PUT", "/persons", None, {}, 405),
        ("GET", "/persons", None, {"Accept": PARAMETERS}, 406),
        ("POST", "/persons", {"type": "computer"}, {}, 409),
        ("PATCH", "/persons/1", {"type": "person"}, {"If-Match": '"x"'}, 412),
        ("POST", "/persons", {"type": "person"}, {"Content-Type": PARAMETERS}, 415),
        ("POST", "/persons", {"type": "person", "attributes": {"x": 1}}, {}, 422),
        ("POST", "/persons", [], {}, 400),
    ],
)
async def test_every_error_response_is_a_valid_document(
    fleet: Api, method: str, path: str, data: Any, headers: dict[str, str], status: int
) -> None:
    actual, document = await fetch(fleet, method, path, data, **headers)
    assert actual == status
    assert document.keys() == {"errors", "jsonapi"}
    assert isinstance(document["errors"], list)
    assert {error["status"] for error in document["errors"]} == {str(status)}


READS = [("GET", start, None) for start in STARTS]


@pytest.mark.parametrize(
    ("method", "path", "data"), [*READS, *BODIES, ("DELETE", "/persons/1", None)]
)
async def test_unknown_parameters_are_rejected_on_every_route(
    fleet: Api, method: str, path: str, data: Any
) -> None:
    before = await all_documents(fleet)
    for name in ("nonsense", "Include", "pageSize", "page", "page[nonsense]"):
        url = f"{path}{'&' if '?' in path else '?'}{name}=1"
        status, document = await fetch(fleet, method, url, data)
        assert status == 400
        assert [error["source"] for error in document["errors"]] == [{"parameter": name}]
    assert await all_documents(fleet) == before


async def all_documents(api: Api) -> list[Any]:
    return [(await api.get(path)).document for path in ("/persons?include=computers", "/computers")]


async def test_only_parameters_of_the_specification_are_described(api: Api) -> None:
    async with api.client.get("/api/swagger/swagger.json") as response:
        description = await response.json()
    shared = description["components"]["parameters"].values()
    inline = [
        parameter
        for item in description["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
        for parameter in operation.get("parameters", [])
    ]
    names = {
        parameter["name"] for parameter in [*shared, *inline] if parameter.get("in") == "query"
    }
    assert "include" in names
    base_names = {name.partition("[")[0] for name in names}
    assert base_names <= {"include", "fields", "sort", "filter", "page"}


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_unknown_members_are_ignored_at_every_level(fleet: Api, method: str) -> None:
    path, created = ("/computers", "4") if method == "POST" else ("/computers/1", "1")
    more: dict[str, Any] = {"colour": "red", "x-y": [1]}
    identifier = {"type": "person", "id": "2", **more}
    data = {
        "type": "computer",
        "attributes": {"serial": "SN-9"},
        "relationships": {"owner": {"data": identifier, **more}},
        **more,
    }
    response = await fleet.request(method, path, {"data": data, **more})
    assert (response.status, response.id) == (201 if method == "POST" else 200, created)
    assert response.data["attributes"] == {"serial": "SN-9"}
    assert linkage_of(response.data) == {"owner": {"data": {"type": "person", "id": "2"}}}
    linkage = f"/computers/{created}/relationships/owner"
    body = {"data": {**identifier, "id": "1"}, **more}
    assert (await fleet.request("PATCH", linkage, body)).status == 204
    assert (await fleet.get(f"/computers/{created}?include=owner")).included == [("person", "1")]


@pytest.mark.parametrize(
    ("document", "status", "pointer"),
    [
        ({"Data": {"type": "person", "attributes": GRACE}}, 400, "/data"),
        ({"data": {"Type": "person", "attributes": GRACE}}, 400, "/data/type"),
        (
            {"data": {"type": "person", "attributes": {**GRACE, "Email": "g@example.com"}}},
            422,
            "/data/attributes/Email",
        ),
        (
            {
                "data": {
                    "type": "person",
                    "attributes": GRACE,
                    "relationships": {"Computers": to_many()},
                }
            },
            422,
            "/data/relationships/Computers",
        ),
    ],
)
async def test_member_names_are_case_sensitive(
    api: Api, document: Any, status: int, pointer: str
) -> None:
    response = await api.request("POST", "/persons", document)
    assert (response.status, response.errors) == (status, [(status, pointer)])


async def test_errors_of_one_kind_share_a_title(fleet: Api) -> None:
    responses = [await fleet.get(path) for path in ("/persons/9", "/computers/8", "/nothing")]
    assert {response.document["errors"][0]["title"] for response in responses} == {"Not found"}
    assert len({response.document["errors"][0]["detail"] for response in responses}) == 3
