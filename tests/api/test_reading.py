"""GET of one resource and of collections: their documents, links and counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp import ClientError

from registry.settings import Settings
from registry.storage.reads.listings import CHUNK
from tests.conftest import Serve
from tests.support import Api, Database


async def test_a_person_has_all_attributes(api: Api) -> None:
    await api.person("Grace", "Hopper", email="grace@example.com")
    response = await api.get("/persons/1")
    assert response.status == 200
    assert response.document == {
        "data": {
            "type": "person",
            "id": "1",
            "attributes": {
                "first_name": "Grace",
                "last_name": "Hopper",
                "full_name": "Grace Hopper",
                "email": "grace@example.com",
            },
            "links": {"self": "/persons/1"},
        },
        "jsonapi": {"version": "1.0"},
        "links": {"self": "/persons/1"},
    }


async def test_a_computer_has_only_its_serial(api: Api) -> None:
    await api.computer("SN-7", owner=await api.person())
    response = await api.get("/computers/1")
    assert response.document == {
        "data": {
            "type": "computer",
            "id": "1",
            "attributes": {"serial": "SN-7"},
            "links": {"self": "/computers/1"},
        },
        "jsonapi": {"version": "1.0"},
        "links": {"self": "/computers/1"},
    }


async def test_a_collection_has_a_count_and_its_url_as_self_link(api: Api) -> None:
    await api.person("Grace", "Hopper")
    await api.person("Ada", "Lovelace", email="ada@example.com")
    response = await api.get("/persons")
    assert response.status == 200
    assert response.document.keys() == {"data", "jsonapi", "links", "meta"}
    assert response.document["meta"] == {"count": 2}
    assert response.document["links"] == {"self": str(api.client.make_url("/persons"))}
    assert [person["attributes"] for person in response.data] == [
        {
            "first_name": "Grace",
            "last_name": "Hopper",
            "full_name": "Grace Hopper",
            "email": None,
        },
        {
            "first_name": "Ada",
            "last_name": "Lovelace",
            "full_name": "Ada Lovelace",
            "email": "ada@example.com",
        },
    ]


@pytest.mark.parametrize("path", ["/persons", "/computers", "/persons?include=computers"])
async def test_an_empty_collection_is_an_empty_array(api: Api, path: str) -> None:
    response = await api.get(path)
    assert (response.status, response.data) == (200, [])
    assert response.document["meta"] == {"count": 0}


@pytest.mark.parametrize(
    ("sent", "self_link"),
    [
        (
            "/computers?include=owner&fields[person]=full_name,email",
            "/computers?include=owner&fields%5Bperson%5D=full_name,email",
        ),
        ("/computers?fields%5Bperson%5d=email", "/computers?fields%5Bperson%5d=email"),
        ("/computers?include=%6Fwner", "/computers?include=%6Fwner"),
        ("/computers?", "/computers?"),
        ("/%63omputers", "/%63omputers"),
    ],
)
async def test_the_self_link_of_a_collection_is_the_requested_url_percent_encoded(
    api: Api, sent: str, self_link: str
) -> None:
    status, document = await api.raw(
        f"GET {sent} HTTP/1.0\r\nHost: fleet.example:81\r\n\r\n".encode()
    )
    assert status == 200
    assert document["links"]["self"] == f"http://fleet.example:81{self_link}"


async def test_an_absolute_request_target_is_repeated_in_the_self_link(api: Api) -> None:
    status, document = await api.raw(
        b"GET http://proxy.example/persons?include= HTTP/1.0\r\nHost: fleet.example\r\n\r\n"
    )
    assert (status, document["links"]) == (200, {"self": "http://proxy.example/persons?include="})


@pytest.mark.parametrize(
    "host", [b"", b"a b", b'"><script>', b"\xff", b"a/b", b"u@h", b"[", b"a:999999"]
)
async def test_an_invalid_host_header_is_rejected(api: Api, host: bytes) -> None:
    status, document = await api.raw(
        b"GET /persons HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
    )
    assert status == 400
    assert document["errors"][0]["code"] == "malformed_request"


async def test_the_public_url_replaces_the_host_of_the_request(
    serve: Serve, settings: Settings
) -> None:
    api = await serve(settings=replace(settings, public_url="https://registry.example"))
    response = await api.get("/persons?include=computers")
    assert response.document["links"] == {
        "self": "https://registry.example/persons?include=computers"
    }
    await api.person()
    assert (await api.get("/persons/1")).document["links"] == {"self": "/persons/1"}


@pytest.mark.parametrize(
    "identifier",
    f"{2**63} {'9' * 400} 2 0 -1 01 1.0 1e0 +1 x 1_0 %201 %EF%BC%91 null %00 %FF 1%2F1 .. %2e%2e "
    "{id} [1] $where 1;1".split(),
)
async def test_an_invalid_or_unknown_id_is_not_found(api: Api, identifier: str) -> None:
    await api.person()
    status, document = await api.raw(
        f"GET /persons/{identifier} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode()
    )
    assert status == 404
    assert document["errors"][0]["code"] == "not_found"


async def test_the_largest_id_can_be_read(api: Api, database: Database) -> None:
    await database.persons.insert_one(
        {"_id": 2**63 - 1, "first_name": "Max", "last_name": "Id", "email": None}
    )
    assert (await api.get(f"/persons/{2**63 - 1}")).id == str(2**63 - 1)


async def test_a_failure_after_the_headers_were_sent_aborts_the_response(
    api: Api, database: Database
) -> None:
    await database.computers.insert_many(
        {"_id": number, "serial": "x", "person": None} for number in range(1, CHUNK + 2)
    )
    await database.computers.update_one(
        {"_id": CHUNK + 1}, {"$set": {"serial": 5}}, bypass_document_validation=True
    )
    with pytest.raises(ClientError):
        await api.get("/computers")
    assert (await api.get("/persons")).status == 200


@pytest.mark.parametrize("content_type", [None, "application/vnd.api+json", "text/plain", "x"])
async def test_a_get_needs_no_content_type_and_no_credentials(
    api: Api, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"Content-Type": content_type}
    for path in ("/persons", "/computers"):
        async with api.client.get(path, headers=headers) as response:
            assert response.status == 200


async def test_the_body_of_a_get_is_ignored(api: Api) -> None:
    assert (await api.request("GET", "/persons", b"{not json")).status == 200


@pytest.mark.parametrize("path", ["/persons", "/persons/1", "/computers?include=owner"])
async def test_head_responds_like_get_without_a_body(api: Api, path: str) -> None:
    await api.person()
    get, head = await api.get(path), await api.request("HEAD", path)
    assert (head.status, head.document) == (200, None)
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert head.headers.get("Content-Length") == get.headers.get("Content-Length")


@pytest.mark.parametrize(
    ("path", "status"), [("/persons/9", 404), ("/persons?x=1", 400), ("/nothing", 404)]
)
async def test_head_fails_like_get(api: Api, path: str, status: int) -> None:
    assert (await api.request("HEAD", path)).status == status
