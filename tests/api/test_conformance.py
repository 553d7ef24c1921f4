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
from registry.http.views.feed import FeedView
from tests.support import MEDIA_TYPE, Api, linkage_of, to_many

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
    "/assignments?include=computer&filter[at]=2999-01-01T00:00:00Z",
    "/assignments?fields[assignment]=since,created_by&sort=-since&page[size]=1",
    "/assignments/1/relationships/owner?include=owner",
    "/persons/1?include=assignments",
    "/computers/1?include=assignments.owner",
    "/persons/1/assignments?filter[serial]=SN-1",
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


async def test_every_link_leads_to_a_valid_document(fleet: Api) -> None:
    routes = {
        route.resource
        for route in fleet.app.router.routes()
        if isinstance(route.handler, type)
        and issubclass(route.handler, DocumentView)
        and route.handler is not FeedView  # whose document has no data
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
        pending += links_of(document)
    visited = {URL(path).path for path in seen}
    for resource in routes:
        path = resource.canonical  # type: ignore[union-attr] # a view has a path
        pattern = re.escape(path).replace(r"\{id\}", "[0-9]+")
        assert any(re.fullmatch(pattern, url) for url in visited), pattern


READS = [("GET", start, None) for start in STARTS]


async def test_unknown_parameters_are_rejected(fleet: Api) -> None:
    before = await all_documents(fleet)
    for method, path, data in (*READS, *BODIES, ("DELETE", "/persons/1", None)):
        others = ("include", "sort", "page[size]") if data and "/relationships/" in path else ()
        for name in ("nonsense", "Include", "pageSize", "page", "page[nonsense]", *others):
            url = f"{path}{'&' if '?' in path else '?'}{name}=1"
            status, document = await fetch(fleet, method, url, data)
            assert status == 400, url
            assert [error["source"] for error in document["errors"]] == [{"parameter": name}]
    assert await all_documents(fleet) == before


async def all_documents(api: Api) -> list[Any]:
    return [(await api.get(path)).document for path in ("/persons?include=computers", "/computers")]


async def test_only_parameters_of_the_specification_are_described(api: Api) -> None:
    async with api.client.get("/api/swagger/swagger.json") as response:
        description = await response.json()
    names = {
        parameter["name"]
        for item in description["paths"].values()
        for operation in item.values()
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
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
async def test_members_regard_case(api: Api, document: Any, status: int, pointer: str) -> None:
    response = await api.request("POST", "/persons", document)
    assert (response.status, response.errors) == (status, [(status, pointer)])
