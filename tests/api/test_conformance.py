"""Conformance to JSON:API 1.0 on every route and in every document.

`tests/statements.md` lists all statements, and the tests of each. `tests/jsonapi` tests the syntax
of headers and parameters.
"""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any
from urllib.parse import unquote

import pytest
from yarl import URL

from registry.http.views.all_types import FeedView
from registry.http.views.document_view import DocumentView
from tests.support import (
    ATOMIC,
    COMPUTER,
    MEDIA_TYPE,
    PERSON,
    VARY,
    Api,
    Database,
    add,
    declared_routes,
    linkage_of,
    new,
    stored_records,
    to_many,
    to_one,
)

LINKAGE, OWNED = "/persons/1/relationships/computers", "/persons/1/computers"
OWNER, OWNER_LINKAGE = "/computers/1/owner", "/computers/1/relationships/owner"

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
    f"{LINKAGE}?include=computers.owner",
    f"{LINKAGE}?page[size]=1",
    f"{OWNED}?include=owner",
    f"{OWNER_LINKAGE}?include=owner",
    f"{OWNER}?include=computers",
    "/assignments?include=computer&filter[at]=2999-01-01T00:00:00Z",
    "/assignments?fields[assignment]=since,created_by&sort=-since&page[size]=1",
    "/assignments/1/relationships/owner?include=owner",
    "/persons/1?include=assignments",
    "/computers/1?include=assignments.owner",
    "/persons/1/assignments?filter[serial]=SN-1",
)
"""Following links from these paths reaches every route that can be read."""

WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/persons", PERSON),
    ("POST", "/computers", COMPUTER),
    ("PATCH", "/persons/1", new("person", {"computers": to_many("1")})),
    ("PATCH", "/computers/1", COMPUTER),
    *((method, LINKAGE, to_many("3")["data"]) for method in ("PATCH", "POST", "DELETE")),
    ("PATCH", OWNER_LINKAGE, None),
]
DELETIONS = [("DELETE", path, None) for path in ("/persons/1", "/computers/1")]
"""A request of each kind that writes."""

PROFILE = f'{MEDIA_TYPE}; profile="https://jsonapi.org/profiles/ethanresnick/cursor-pagination"'
UTF_8 = f"{MEDIA_TYPE}; charset=utf-8"

READS = (
    *("/persons", "/persons?page[size]=1", "/persons/1", OWNED, LINKAGE),
    *("/computers", "/computers/1", OWNER, OWNER_LINKAGE),
)


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Grace owns computers 1 and 2, Ada owns none; nobody owns 3."""
    await api.person("Grace", email="grace@example.com")
    await api.person("Ada")
    for owner in ("1", "1", None):
        await api.computer(owner=owner)
    return api


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
        route.path
        for route in declared_routes(fleet.app)
        if issubclass(route.view, DocumentView)
        and route.view is not FeedView  # whose document has no data
        and "GET" in route.methods
    }
    assert routes
    seen: set[str] = set()
    pending = list(STARTS)
    while pending:
        path = pending.pop().removeprefix(fleet.origin)
        if path not in seen:
            seen.add(path)
            response = await fleet.get(path)
            assert (path, response.status) == (path, 200)
            pending += links_of(response.document)
    visited = {URL(path).path for path in seen}
    for path in routes:
        pattern = re.escape(path).replace(r"\{id\}", "[0-9]+")
        assert any(re.fullmatch(pattern, url) for url in visited), pattern


async def test_unknown_parameters_are_rejected(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for method, path, data in (*(("GET", start, None) for start in STARTS), *WRITES, *DELETIONS):
        others = ("include", "sort", "page[size]") if data and path == LINKAGE else ()
        for name in ("nonsense", "Include", "pageSize", "page", "page[nonsense]", *others):
            url = f"{path}{'&' if '?' in path else '?'}{name}=1"
            response = await fleet.send(method, url, data)
            assert (response.status, response.errors) == (400, [(400, name)]), url
    assert await stored_records(database) == before


PAGED = "/persons?include=computers"

REFUSED = [
    *(f"/computers?filter[owner.{name}]=x" for name in ("nickname", "password", "computers")),
    *(
        f"/persons?sort={name}"
        for name in (
            *("password", "$natural", "computers", "%00", "%ff", "_id", ".", "--id", "%20id", "ID"),
            *("-", "owner", "first_name.", "last_name,", "last_name,,id", "id,id"),
            *("computers.serial", "last_name,-last_name"),
        )
    ),
    *(f"/computers?sort=owner.{name}" for name in ("password", "", "computers.serial")),
    *(f"{PAGED}&page[{path}][size]=1" for path in ("owner", "computer", "computers.", "")),
    *(f"{PAGED}&page[computers]{more}" for more in ("[number]=1", "=1", "[size]=0", "[size]=x")),
    *(f"/computers?include=owner&page[{path}][size]=1" for path in ("owner", "owner.computers")),
    *(f"/persons?include={path}" for path in ("owner", "email", " computers", "$lookup")),
    *(f"/persons?include={path}" for path in ("computers,", ",", ".", "computers.", ".computers")),
    *(f"/persons?include=computers{path}" for path in ("..owner", ".serial", ".owner" * 2)),
    *(f"/persons/1?fields[{name}]=email" for name in ("", "persons", "Person", "$where")),
    *(f"/computers?{name}=email" for name in ("fields", "fields[person][x]", "Fields[person]")),
    *(f"/computers?fields[person]={name}" for name in ("password", "owner", "_id", "email,", ",")),
    *(f"/persons/1?{query}" for query in ("sort=id", "page[size]=1")),
    *(f"{OWNED}?include={path}" for path in ("computers", "owner.cars")),
    *(f"{OWNED}?{query}" for query in ("sort=last_name", "filter[last_name]=x", "x=1")),
    *(f"{OWNER}?{query}" for query in ("include=owner", "sort=last_name", "filter[id]=1")),
    *(f"{LINKAGE}?include={path}" for path in ("owner", "computers.cars")),
    f"{LINKAGE}?include=computers.owner.computers.owner",
    *(f"{LINKAGE}?{query}" for query in ("sort=last_name", "filter[password]=x", "page[size]=0")),
    *(f"{OWNER_LINKAGE}?{query}" for query in ("include=computers", "sort=last_name", "x=1")),
]
"""The last parameter of each is refused; tests/jsonapi tests the syntax of their values."""


async def test_each_invalid_parameter_is_named(fleet: Api) -> None:
    for url in REFUSED:
        parameter = unquote(url.partition("?")[2].rpartition("&")[2].partition("=")[0])
        response = await fleet.get(url)
        assert (response.status, response.errors) == (400, [(400, parameter)]), url


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_unknown_members_are_ignored_at_every_level(fleet: Api, method: str) -> None:
    path, id_ = ("/computers", "4") if method == "POST" else ("/computers/1", "1")
    more: dict[str, Any] = {"colour": "red", "x-y": [1]}
    identifier = {"type": "person", "id": "2", **more}
    data = new("computer", {"owner": {"data": identifier, **more}}, serial="SN-9") | more
    response = await fleet.request(method, path, {"data": data, **more})
    assert (response.status, response.id) == (201 if method == "POST" else 200, id_)
    assert response.data["attributes"] == {"serial": "SN-9"}
    assert linkage_of(response.data) == {"owner": to_one("2")}
    body = {"data": {**identifier, "id": "1"}, **more}
    linkage = f"/computers/{id_}/relationships/owner"
    assert (await fleet.request("PATCH", linkage, body)).status == 204
    assert (await fleet.get(f"/computers/{id_}?include=owner")).included == [("person", "1")]


async def test_accept_is_negotiated_on_every_read(fleet: Api) -> None:
    for path, method in product(READS, ("GET", "HEAD")):
        for accept, status in (
            *((text, 200) for text in (MEDIA_TYPE, "application/json")),
            *((text, 406) for text in (UTF_8, ATOMIC)),
        ):
            response = await fleet.request(method, path, headers={"Accept": accept})
            assert (response.status, response.headers["Vary"]) == (status, VARY), (path, accept)


async def test_an_unacceptable_accept_is_refused(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for request in (*WRITES, *DELETIONS):
        response = await fleet.send(*request, Accept=f"text/html, {PROFILE}")
        assert (response.status, response.errors) == (406, [(406, "")])
        assert MEDIA_TYPE in response.document["errors"][0]["detail"]
        assert response.headers["Vary"] == VARY
    assert await stored_records(database) == before


async def test_an_unsupported_media_type_is_refused(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for request, sent in product(WRITES, [UTF_8, ATOMIC, "application/json"]):
        response = await fleet.send(*request, **{"Content-Type": sent})
        assert (response.status, response.errors) == (415, [(415, "")])
        detail = response.document["errors"][0]["detail"]
        assert f"`Content-Type: {MEDIA_TYPE}`" in detail
        assert sent in detail
        assert response.headers["Vary"] == VARY
    for method, path, _ in WRITES:  # without a media type
        status, document = await fleet.raw(
            f"{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
            "Content-Length: 2\r\n\r\n{}".encode()
        )
        assert (status, document["errors"][0]["status"]) == (415, "415")
    # A parameter is rejected even without a body.
    for method, path in (
        *(("GET", path) for path in READS),
        *(deletion[:2] for deletion in DELETIONS),
    ):
        response = await fleet.send(method, path, **{"Content-Type": UTF_8})
        assert response.errors == [(415, "")]
    assert await stored_records(database) == before


async def test_operations_use_the_media_type_of_their_extension(api: Api) -> None:
    for accept, sent, status in (
        *((text, ATOMIC, 200) for text in (MEDIA_TYPE, ATOMIC, "*/*")),
        (f"{MEDIA_TYPE};a=b, {ATOMIC};q=0.5", ATOMIC, 200),
        *((text, ATOMIC, 406) for text in (UTF_8, f"{ATOMIC}; charset=utf-8", PROFILE)),
        *((ATOMIC, text, 415) for text in (MEDIA_TYPE, f"{ATOMIC}; charset=utf-8")),
        (ATOMIC, f'{MEDIA_TYPE}; ext="https://example.com/other"', 415),
    ):
        response = await api.operate(add(COMPUTER), **{"Accept": accept, "Content-Type": sent})
        assert (response.status, response.headers["Vary"]) == (status, VARY), (accept, sent)
        expected = ATOMIC if status == 200 else MEDIA_TYPE
        assert response.headers["Content-Type"] == expected
        if status == 415:
            assert f"`Content-Type: {ATOMIC}`" in response.document["errors"][0]["detail"]
    assert len((await api.get("/computers")).data) == 4
