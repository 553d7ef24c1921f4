"""GET of resources, collections, related resources: what the model does not show.

`tests/consistency/test_model.py` compares whole documents with a model, for all parameters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.settings import Settings
from tests.conftest import Serve
from tests.support import Api, Database, linkage_of, stored_records, to_many

GRACE = {
    "type": "person",
    "id": "1",
    "attributes": {
        "first_name": "Grace",
        "last_name": "Hopper",
        "full_name": "Grace Hopper",
        "email": "grace@example.com",
    },
    "links": {"self": "/persons/1"},
}
COMPUTER = {
    "type": "computer",
    "id": "1",
    "attributes": {"serial": "SN-1"},
    "links": {"self": "/computers/1"},
}
JSONAPI = {"jsonapi": {"version": "1.0"}}


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Grace, who owns a computer."""
    await api.computer("SN-1", await api.person("Grace", "Hopper", email="grace@example.com"))
    return api


async def test_a_resource_has_all_attributes_and_a_relative_link(fleet: Api) -> None:
    for path, resource in (("/persons/1", GRACE), ("/computers/1", COMPUTER)):
        response = await fleet.get(path)
        assert response.document == {"data": resource, "links": {"self": path}, **JSONAPI}


async def test_a_collection_has_a_count_and_an_absolute_link(fleet: Api) -> None:
    for path, resource in (("/persons", GRACE), ("/persons/1/computers", COMPUTER)):
        assert (await fleet.get(path)).document == {
            "data": [resource],
            "links": {"self": f"{fleet.origin}{path}"},
            "meta": {"count": 1},
            **JSONAPI,
        }


async def test_fields_restrict_included_resources_of_that_type(fleet: Api) -> None:
    response = await fleet.get("/computers?include=owner&fields[person]=full_name,email")
    link = "/computers/1/owner", "/computers/1/relationships/owner"
    owner = {"data": {"type": "person", "id": "1"}, "links": {"related": link[0], "self": link[1]}}
    assert response.data == [{**COMPUTER, "relationships": {"owner": owner}}]
    attributes = {"full_name": "Grace Hopper", "email": "grace@example.com"}
    assert response.document["included"] == [{**GRACE, "attributes": attributes}]


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
async def test_the_self_link_is_the_requested_url(api: Api, sent: str, self_link: str) -> None:
    status, document = await api.raw(
        f"GET {sent} HTTP/1.0\r\nHost: fleet.example:81\r\n\r\n".encode()
    )
    assert status == 200
    assert document["links"]["self"] == f"http://fleet.example:81{self_link}"


async def test_the_related_link_does_not_depend_on_how_the_path_is_encoded(fleet: Api) -> None:
    response = await fleet.get("/persons/1/%72elationships/computers?sort=id")
    assert response.document["links"]["related"] == f"{fleet.origin}/persons/1/computers"


async def test_absolute_links_start_with_the_public_url(serve: Serve, settings: Settings) -> None:
    public = "https://registry.example"
    api = await serve(settings=replace(settings, public_url=public))
    for _ in range(2):
        await api.person()
    for query in ("include=computers", "page[number]=1&page[size]=1", "page[size]=1"):
        links = (await api.get(f"/persons?{query}")).document["links"]
        assert links.pop("prev", None) is None
        assert all(link.startswith(f"{public}/persons?") for link in links.values()), links
    assert (await api.get("/persons/1")).document["links"] == {"self": "/persons/1"}


NO_IDS = (
    f"9 0 -1 01 1.0 1e0 +1 x 1_0 %201 %EF%BC%91 null %00 %FF 1%2F1 .. %2e%2e {{id}} [1] $where 1;1 "
    f"{2**63} {'9' * 400}"
).split()

ON_RESOURCES: list[tuple[str, str, Any]] = [
    ("GET", "/persons/{}", None),
    ("HEAD", "/persons/{}", None),
    ("DELETE", "/persons/{}", None),
    ("PATCH", "/persons/{}", {"type": "person", "attributes": {"first_name": "New"}}),
    ("PATCH", "/persons/{}", {"type": "person", "relationships": {"computers": to_many("1")}}),
    ("DELETE", "/computers/{}", None),
    ("GET", "/persons/{}/computers?include=", None),
    ("GET", "/computers/{}/owner?fields[person]=email", None),
    ("GET", "/persons/{}/relationships/computers", None),
    *(
        (method, "/persons/{}/relationships/computers", to_many("1")["data"])
        for method in ("PATCH", "POST", "DELETE")
    ),
    ("HEAD", "/computers/{}/relationships/owner", None),
    ("PATCH", "/computers/{}/relationships/owner", {"type": "person", "id": "1"}),
]
"""A request of every kind on one resource."""


async def test_an_invalid_or_unknown_id_is_not_found(fleet: Api, database: Database) -> None:
    before = await stored_records(database)
    for id_ in NO_IDS:
        request = f"GET /persons/{id_} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        status, document = await fleet.raw(request.encode())
        assert (status, document["errors"][0]["code"]) == (404, "not_found"), id_
    for method, path, data in ON_RESOURCES:
        for id_ in ("9", "x", "0", "01", "-1", str(2**63)):
            body = None if data is None else {"data": data}
            response = await fleet.request(method, path.format(id_), body)
            assert response.status == 404, (method, path, id_)
            assert method == "HEAD" or response.errors == [(404, "")]
    assert await stored_records(database) == before


async def test_the_largest_id_can_be_read(api: Api, database: Database) -> None:
    await database.persons.insert_one(
        {"_id": 2**63 - 1, "first_name": "Max", "last_name": "Id", "email": None}
    )
    assert (await api.get(f"/persons/{2**63 - 1}")).id == str(2**63 - 1)


async def test_a_dangling_foreign_key_is_no_owner(fleet: Api, database: Database) -> None:
    """External writers may leave it."""
    await database.computers.insert_one({"_id": 2, "serial": "SN-2", "person": 99})
    await fleet.computer("SN-3")
    listed = await fleet.get("/computers?include=owner")
    owners = [linkage_of(one)["owner"]["data"] for one in listed.data]
    assert owners == [{"type": "person", "id": "1"}, None, None]
    assert listed.included == [("person", "1")]
    assert (await fleet.get("/computers/2/owner")).data is None
    linkage = "/computers/2/relationships/owner"
    assert (await fleet.get(f"{linkage}?include=owner")).document["included"] == []
    assert (await fleet.get("/persons/99/computers")).status == 404
    changed = await fleet.patch(linkage, {"type": "person", "id": "1"})
    assert changed.status == 204
    assert (await fleet.get("/computers/2/owner")).id == "1"


async def test_a_get_needs_no_content_type_and_ignores_its_body(api: Api) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "x"}):
        async with api.client.get("/persons", headers=headers) as response:
            assert response.status == 200
    assert (await api.request("GET", "/persons", b"{not json")).status == 200
