"""Content negotiation on every route: JSON:API 1.0, Content Negotiation, Server Responsibilities.

The syntax of `Accept` and `Content-Type` is tested in `tests/jsonapi/test_content_negotiation.py`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.jsonapi.operation_documents import EXTENSION
from tests.support import MEDIA_TYPE, VARY, Api, Database, stored_records, to_many

ATOMIC = f'{MEDIA_TYPE}; ext="{EXTENSION}"'
PROFILE = f'{MEDIA_TYPE}; profile="https://jsonapi.org/profiles/ethanresnick/cursor-pagination"'

IDENTIFIER = {"type": "person", "id": "2"}
ADD_COMPUTER = {
    "atomic:operations": [
        {"op": "add", "data": {"type": "computer", "attributes": {"serial": "x"}}},
    ]
}

READS = (
    "/persons",
    "/persons?page[size]=1",
    "/persons/1",
    "/persons/1/computers",
    "/persons/1/relationships/computers",
    "/computers",
    "/computers/1",
    "/computers/1/owner",
    "/computers/1/relationships/owner",
)

WRITES: list[tuple[str, str, Any]] = [
    (
        "POST",
        "/persons",
        {"type": "person", "attributes": {"first_name": "Ada", "last_name": "Lovelace"}},
    ),
    ("PATCH", "/persons/1", {"type": "person", "attributes": {"first_name": "New"}}),
    ("PATCH", "/persons/1/relationships/computers", []),
    ("POST", "/persons/1/relationships/computers", to_many("2")["data"]),
    ("DELETE", "/persons/1/relationships/computers", to_many("1")["data"]),
    ("POST", "/computers", {"type": "computer", "attributes": {"serial": "x"}}),
    ("PATCH", "/computers/1", {"type": "computer", "attributes": {"serial": "New"}}),
    ("PATCH", "/computers/1/relationships/owner", IDENTIFIER),
]

DELETIONS = ("/persons/1", "/computers/1")


async def fleet(api: Api) -> None:
    """Create two persons and two computers; the first person owns the first computer."""
    await api.person()
    await api.person()
    await api.computer(owner="1")
    await api.computer()


@pytest.mark.parametrize("path", READS)
async def test_accept_is_negotiated_on_every_read(api: Api, path: str) -> None:
    await fleet(api)
    for accept, status in (
        (MEDIA_TYPE, 200),
        (f"{MEDIA_TYPE};charset=utf-8;q=0.9, {MEDIA_TYPE};q=0.1", 200),
        ("application/json", 200),
        (f"{MEDIA_TYPE}; charset=utf-8", 406),
        (f"{MEDIA_TYPE.upper()};charset=utf-8;q=0.9, application/json", 406),
        (PROFILE, 406),
        (ATOMIC, 406),
    ):
        get = await api.get(path, Accept=accept)
        assert (get.status, get.headers["Vary"]) == (status, VARY)
        head = await api.request("HEAD", path, headers={"Accept": accept})
        assert (head.status, head.headers["Vary"]) == (status, VARY)


async def test_multiple_accept_headers_are_combined(api: Api) -> None:
    for lines, status in (
        ((f"{MEDIA_TYPE};a=b", "text/html"), 406),
        ((f"{MEDIA_TYPE};a=b", MEDIA_TYPE), 200),
        (("text/html", f"{MEDIA_TYPE};a=b", ""), 406),
    ):
        accept = "".join(f"Accept: {line}\r\n" for line in lines)
        target = "/persons?page[size]=1"
        actual, _ = await api.raw(
            f"GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{accept}\r\n".encode()
        )
        assert actual == status


@pytest.mark.parametrize(("method", "path", "data"), WRITES)
async def test_a_write_with_an_unacceptable_accept_changes_nothing(
    api: Api, database: Database, method: str, path: str, data: Any
) -> None:
    await fleet(api)
    before = await stored_records(database)
    for accept in (f"{MEDIA_TYPE}; charset=utf-8", f"text/html, {PROFILE}", ATOMIC):
        response = await api.request(method, path, {"data": data}, {"Accept": accept})
        assert (response.status, response.errors) == (406, [(406, "")])
        assert MEDIA_TYPE in response.document["errors"][0]["detail"]
        assert response.headers["Vary"] == VARY
    assert await stored_records(database) == before


@pytest.mark.parametrize("path", DELETIONS)
async def test_a_deletion_with_an_unacceptable_accept_changes_nothing(
    api: Api, database: Database, path: str
) -> None:
    await fleet(api)
    before = await stored_records(database)
    response = await api.request("DELETE", path, headers={"Accept": f"{MEDIA_TYPE};a=b"})
    assert (response.status, response.headers["Vary"]) == (406, VARY)
    assert await stored_records(database) == before


@pytest.mark.parametrize(("method", "path", "data"), WRITES)
async def test_an_unsupported_media_type_changes_nothing_and_the_error_names_the_expected_one(
    api: Api, database: Database, method: str, path: str, data: Any
) -> None:
    await fleet(api)
    before = await stored_records(database)
    for sent in (
        f"{MEDIA_TYPE}; charset=utf-8",
        f"{MEDIA_TYPE};charset=UTF-8",
        PROFILE,
        ATOMIC,
        "application/json",
        "application/x-www-form-urlencoded",
    ):
        response = await api.request(method, path, {"data": data}, {"Content-Type": sent})
        assert (response.status, response.errors) == (415, [(415, "")])
        detail = response.document["errors"][0]["detail"]
        assert f"`Content-Type: {MEDIA_TYPE}`" in detail
        assert "; charset=utf-8" in detail
        assert sent[:79] in detail
        assert response.headers["Vary"] == VARY
    assert await stored_records(database) == before


@pytest.mark.parametrize(("method", "path", "data"), WRITES)
async def test_a_body_without_a_content_type_is_rejected_with_the_expected_media_type(
    api: Api, database: Database, method: str, path: str, data: Any
) -> None:
    await fleet(api)
    before = await stored_records(database)
    body = json.dumps({"data": data}).encode()
    status, document = await api.raw(
        f"{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    assert status == 415
    assert f"`Content-Type: {MEDIA_TYPE}`" in document["errors"][0]["detail"]
    assert await stored_records(database) == before


@pytest.mark.parametrize(("method", "path", "data"), WRITES)
async def test_a_write_with_the_json_api_media_type_succeeds_and_varies_by_accept(
    api: Api, method: str, path: str, data: Any
) -> None:
    await fleet(api)
    response = await api.request(method, path, {"data": data}, {"Content-Type": f"{MEDIA_TYPE} ;"})
    assert response.status == (
        204 if "/relationships/" in path else 201 if method == "POST" else 200
    )
    assert response.headers["Vary"] == VARY
    assert ("Content-Type" in response.headers) == (response.status != 204)


@pytest.mark.parametrize("path", DELETIONS)
async def test_a_deletion_needs_no_content_type(api: Api, path: str) -> None:
    await fleet(api)
    status, head, body = await api.exchange(
        f"DELETE {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
    )
    assert (status, body) == (204, b"")
    assert b"vary: accept, accept-encoding\r\n" in head.lower() + b"\r\n"
    assert b"\r\ncontent-type:" not in head.lower()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/persons/9", 404),
        ("GET", "/persons?x=1", 400),
        ("PUT", "/persons/1", 405),
        ("OPTIONS", "/persons", 204),
        ("OPTIONS", "/computers/1/relationships/owner", 204),
        ("POST", "/persons", 400),
    ],
)
async def test_errors_and_options_responses_vary_by_accept(
    api: Api, method: str, path: str, status: int
) -> None:
    response = await api.request(method, path)
    assert (response.status, response.headers["Vary"]) == (status, VARY)


async def test_operations_use_the_media_type_of_their_extension(api: Api) -> None:
    body = json.dumps(ADD_COMPUTER).encode()
    for accept, sent, status in (
        (MEDIA_TYPE, ATOMIC, 200),
        (ATOMIC, ATOMIC, 200),
        ("*/*", ATOMIC, 200),
        (f"{MEDIA_TYPE};a=b, {ATOMIC};q=0.5", ATOMIC, 200),
        (f"{MEDIA_TYPE}; charset=utf-8", ATOMIC, 406),
        (PROFILE, ATOMIC, 406),
        (f"{ATOMIC}; charset=utf-8", ATOMIC, 406),
        (ATOMIC, MEDIA_TYPE, 415),
        (ATOMIC, f"{ATOMIC}; charset=utf-8", 415),
        (ATOMIC, f'{MEDIA_TYPE}; ext="https://example.com/other"', 415),
    ):
        headers = {"Accept": accept, "Content-Type": sent}
        async with api.client.post("/operations", data=body, headers=headers) as response:
            assert (response.status, response.headers["Vary"]) == (status, VARY)
            expected = ATOMIC if status == 200 else MEDIA_TYPE
            assert response.headers["Content-Type"] == expected
            document = json.loads(await response.read())
        if status == 415:
            assert f"`Content-Type: {ATOMIC}`" in document["errors"][0]["detail"]
    assert len((await api.get("/computers")).data) == 4


@pytest.mark.parametrize(
    ("method", "path"),
    [*(("GET", path) for path in READS), *(("DELETE", path) for path in DELETIONS)],
)
async def test_media_type_parameters_are_rejected_even_without_a_body(
    api: Api, database: Database, method: str, path: str
) -> None:
    await fleet(api)
    before = await stored_records(database)
    for sent in (f"{MEDIA_TYPE}; charset=utf-8", PROFILE, ATOMIC):
        response = await api.request(method, path, headers={"Content-Type": sent})
        assert (response.status, response.errors) == (415, [(415, "")])
    assert await stored_records(database) == before
