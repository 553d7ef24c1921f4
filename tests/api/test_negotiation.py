"""Content negotiation on every route: JSON:API 1.0, Content Negotiation, Server Responsibilities.

The syntax of `Accept` and `Content-Type` is tested in `tests/jsonapi/test_content_negotiation.py`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tests.support import (
    ATOMIC,
    COMPUTER,
    MEDIA_TYPE,
    PERSON,
    VARY,
    Api,
    Database,
    add,
    identifier,
    new,
    stored_records,
    to_many,
)

PROFILE = f'{MEDIA_TYPE}; profile="https://jsonapi.org/profiles/ethanresnick/cursor-pagination"'
UTF_8 = f"{MEDIA_TYPE}; charset=utf-8"

LINKAGE = "/persons/1/relationships/computers"
READS = (
    *("/persons", "/persons?page[size]=1", "/persons/1", "/persons/1/computers", LINKAGE),
    *("/computers", "/computers/1", "/computers/1/owner", "/computers/1/relationships/owner"),
)
WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/persons", PERSON),
    ("PATCH", "/persons/1", new("person", first_name="New")),
    ("PATCH", LINKAGE, []),
    ("POST", LINKAGE, to_many("2")["data"]),
    ("DELETE", LINKAGE, to_many("1")["data"]),
    ("POST", "/computers", COMPUTER),
    ("PATCH", "/computers/1", new("computer", serial="New")),
    ("PATCH", "/computers/1/relationships/owner", identifier("person", "2")),
]
DELETIONS = [("DELETE", path, None) for path in ("/persons/1", "/computers/1")]


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Two persons and two computers, of which the first person owns the first."""
    for owner in (await api.person(), None):
        await api.computer(owner=owner)
    await api.person()
    return api


async def test_accept_is_negotiated_on_every_read(fleet: Api) -> None:
    for path, method in product(READS, ("GET", "HEAD")):
        for accept, status in (
            *((one, 200) for one in (MEDIA_TYPE, "application/json")),
            (f"{MEDIA_TYPE};charset=utf-8;q=0.9, {MEDIA_TYPE};q=0.1", 200),
            (f"{MEDIA_TYPE.upper()};charset=utf-8;q=0.9, application/json", 406),
            *((one, 406) for one in (UTF_8, PROFILE, ATOMIC)),
        ):
            response = await fleet.request(method, path, headers={"Accept": accept})
            assert (response.status, response.headers["Vary"]) == (status, VARY), (path, accept)


async def test_an_unacceptable_accept_changes_nothing(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for request, accept in product((*WRITES, *DELETIONS), (UTF_8, f"text/html, {PROFILE}", ATOMIC)):
        response = await fleet.send(*request, Accept=accept)
        assert (response.status, response.errors) == (406, [(406, "")])
        assert MEDIA_TYPE in response.document["errors"][0]["detail"]
        assert response.headers["Vary"] == VARY
    assert await stored_records(database) == before


async def test_an_unsupported_media_type_changes_nothing_and_the_error_names_the_expected_one(
    fleet: Api, database: Database
) -> None:
    before = await stored_records(database)
    others = [
        f"{MEDIA_TYPE};charset=UTF-8",
        "application/json",
        "application/x-www-form-urlencoded",
    ]
    for request, sent in product(WRITES, [UTF_8, PROFILE, ATOMIC, *others]):
        response = await fleet.send(*request, **{"Content-Type": sent})
        assert (response.status, response.errors) == (415, [(415, "")])
        detail = response.document["errors"][0]["detail"]
        assert f"`Content-Type: {MEDIA_TYPE}`" in detail
        assert "; charset=utf-8" in detail
        assert sent[:79] in detail
        assert response.headers["Vary"] == VARY
    for method, path, _ in WRITES:  # without a media type
        status, document = await fleet.raw(
            f"{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
            "Content-Length: 2\r\n\r\n{}".encode()
        )
        assert (status, document["errors"][0]["status"]) == (415, "415")
    assert await stored_records(database) == before


async def test_parameters_are_rejected_even_without_a_body(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for method, path in (*(("GET", path) for path in READS), *(one[:2] for one in DELETIONS)):
        for sent in (UTF_8, PROFILE, ATOMIC):
            response = await fleet.request(method, path, headers={"Content-Type": sent})
            assert (response.status, response.errors) == (415, [(415, "")])
    assert await stored_records(database) == before


async def test_operations_use_the_media_type_of_their_extension(api: Api) -> None:
    for accept, sent, status in (
        *((one, ATOMIC, 200) for one in (MEDIA_TYPE, ATOMIC, "*/*")),
        (f"{MEDIA_TYPE};a=b, {ATOMIC};q=0.5", ATOMIC, 200),
        *((one, ATOMIC, 406) for one in (UTF_8, f"{ATOMIC}; charset=utf-8", PROFILE)),
        *((ATOMIC, one, 415) for one in (MEDIA_TYPE, f"{ATOMIC}; charset=utf-8")),
        (ATOMIC, f'{MEDIA_TYPE}; ext="https://example.com/other"', 415),
    ):
        response = await api.operate(add(COMPUTER), **{"Accept": accept, "Content-Type": sent})
        assert (response.status, response.headers["Vary"]) == (status, VARY), (accept, sent)
        expected = ATOMIC if status == 200 else MEDIA_TYPE
        assert response.headers["Content-Type"] == expected
        if status == 415:
            assert f"`Content-Type: {ATOMIC}`" in response.document["errors"][0]["detail"]
    assert len((await api.get("/computers")).data) == 4
