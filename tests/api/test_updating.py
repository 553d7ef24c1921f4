"""PATCH on a resource: only what is sent changes, all of it or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from registry.model.authorship import AUTHORSHIP
from registry.resources.person import PersonSchema
from tests.support import Api, Database


@pytest.mark.parametrize("sent", ["2", 2, None, [], {"$gt": 0}])
async def test_the_path_counts_and_not_the_id_in_the_body(api: Api, sent: Any) -> None:
    await api.person()
    await api.person()
    response = await api.patch(
        "/persons/1", {"type": "person", "id": sent, "attributes": {"first_name": "New"}}
    )
    assert (response.status, response.id) == (200, "1")
    assert (await api.get("/persons/2")).data["attributes"]["first_name"] == "Grace"


async def read_whole(api: Api, path: str) -> Any:
    """Return a resource with all attributes that can be read."""
    fields = f"fields[person]={','.join([*PersonSchema().fields, *AUTHORSHIP])}"
    return (await api.get(f"{path}?{fields}")).data


@pytest.mark.parametrize("more", [{}, {"last_name": "Murray"}, {"email": "m@example.com"}])
async def test_a_resource_can_be_sent_back_as_it_was_read(api: Api, more: dict[str, str]) -> None:
    await api.person("Grace", "Hopper")
    read = await read_whole(api, "/persons/1")
    sent = {**read, "attributes": read["attributes"] | more}
    for _ in range(2):
        response = await api.patch("/persons/1", sent)
        assert response.status == 200, response.document
        attributes = response.data["attributes"]
        assert more.items() <= attributes.items()
        assert attributes["full_name"] == f"Grace {attributes['last_name']}"
        read = await read_whole(api, "/persons/1")
        sent = {**read, "attributes": read["attributes"] | more}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("full_name", "Grace Murray"),
        ("full_name", None),
        ("full_name", ["Grace Hopper"]),
        ("created_at", "2026-01-01T00:00:00.000Z"),
        ("created_by", "grace"),
        ("updated_by", False),
    ],
)
async def test_read_only_attributes_keep_their_values(
    api: Api, database: Database, name: str, value: Any
) -> None:
    await api.person("Grace", "Hopper")
    before = await database.persons.find_one()
    # The new full name is not the one that the client has read.
    attributes = {"last_name": "Murray", name: value}
    response = await api.patch("/persons/1", {"type": "person", "attributes": attributes})
    assert (response.status, response.errors) == (422, [(422, f"/data/attributes/{name}")])
    assert await database.persons.find_one() == before
