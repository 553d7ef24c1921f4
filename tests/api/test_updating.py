"""PATCH on a resource: only what is sent changes, all of it or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from registry.model.authorship import AUTHORSHIP
from registry.resources.person import PersonSchema
from tests.support import Api, Database, Response, linkage_of, stored_records, to_many


async def computers_of(api: Api, person: str) -> list[str]:
    response = await api.get(f"/persons/{person}?include=computers")
    return [identifier["id"] for identifier in response.data["relationships"]["computers"]["data"]]


async def test_an_update_changes_only_the_attributes_it_contains(api: Api) -> None:
    await api.person("Grace", "Hopper", email="grace@example.com")
    response = await api.patch(
        "/persons/1", {"type": "person", "id": "1", "attributes": {"last_name": "Murray"}}
    )
    assert response.status == 200
    assert response.document == {
        "data": {
            "type": "person",
            "id": "1",
            "attributes": {
                "first_name": "Grace",
                "last_name": "Murray",
                "full_name": "Grace Murray",
                "email": "grace@example.com",
            },
            "links": {"self": "/persons/1"},
        },
        "jsonapi": {"version": "1.0"},
        "links": {"self": "/persons/1"},
    }
    assert (await api.get("/persons/1")).data == response.data


async def test_attributes_and_computers_change_in_one_request(api: Api) -> None:
    await api.person()
    first, second = await api.computer(), await api.computer()
    response = await api.patch(
        "/persons/1",
        {
            "type": "person",
            "id": "1",
            "attributes": {"email": "g@example.com"},
            "relationships": {"computers": to_many(first, second)},
        },
    )
    assert response.status == 200
    assert response.data["attributes"]["email"] == "g@example.com"
    assert linkage_of(response.data) == {"computers": to_many(first, second)}
    assert "included" not in response.document


async def test_include_adds_the_linked_computers_to_the_response(api: Api) -> None:
    await api.person()
    await api.computer("SN-1")
    response = await api.request(
        "PATCH",
        "/persons/1?include=computers",
        {"data": {"type": "person", "id": "1", "relationships": {"computers": to_many("1")}}},
    )
    assert linkage_of(response.data) == {"computers": to_many("1")}
    assert response.document["included"] == [
        {
            "type": "computer",
            "id": "1",
            "attributes": {"serial": "SN-1"},
            "links": {"self": "/computers/1"},
        }
    ]
    read = await api.get("/computers/1?include=owner")
    assert linkage_of(read.data) == {"owner": {"data": {"type": "person", "id": "1"}}}


async def test_each_missing_computer_is_reported_and_nothing_changes(
    api: Api, database: Database
) -> None:
    await api.person()
    await api.computer()
    await api.computer()
    await api.set_computers("1", "1")
    before = await stored_records(database)
    response = await api.patch(
        "/persons/1",
        {
            "type": "person",
            "attributes": {"first_name": "Changed"},
            "relationships": {
                "computers": to_many("2", "99", "abc", str(2**63), "0", "-1", "", "1.0")
            },
        },
    )
    assert response.status == 404
    assert response.errors == [
        (404, f"/data/relationships/computers/data/{index}/id") for index in range(1, 8)
    ]
    assert await stored_records(database) == before


@pytest.mark.parametrize("number", [2**63, 2**64, 2**80, -1, 0, 1e300])
async def test_a_number_that_is_not_a_valid_id_is_reported_as_a_missing_computer(
    api: Api, number: float
) -> None:
    await api.person()
    sent = {"data": [{"type": "computer", "id": number}]}
    response = await api.patch(
        "/persons/1", {"type": "person", "relationships": {"computers": sent}}
    )
    assert (response.status, response.errors) == (
        404,
        [(404, "/data/relationships/computers/data/0/id")],
    )


NO_OBJECTS: tuple[Any, ...] = (None, [], "x")


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        *((value, "") for value in NO_OBJECTS),
        *(({"computers": value}, "/computers") for value in (*NO_OBJECTS, {}, {"meta": {}})),
        *(
            ({"computers": {"data": value}}, "/computers/data")
            for value in NO_OBJECTS
            if value != []
        ),
        ({"computers": {"data": ["1", None]}}, "/computers/data/0"),
        ({"computers": {"data": [{"type": "computer", "id": True}]}}, "/computers/data/0/id"),
        ({"computers": {"data": [{"type": None, "id": "1"}]}}, "/computers/data/0/type"),
    ],
)
async def test_a_malformed_relationship_is_reported_with_its_pointer(
    api: Api, sent: Any, pointer: str
) -> None:
    await api.person()
    await api.computer(owner="1")
    attributes = {"first_name": "Grace", "last_name": "Hopper"}
    data = {"type": "person", "attributes": attributes, "relationships": sent}
    for response in (await api.patch("/persons/1", data), await api.post("/persons", data)):
        assert response.status == 400
        assert response.errors[0] == (400, f"/data/relationships{pointer}")
    assert await computers_of(api, "1") == ["1"]
    assert (await api.get("/persons")).ids == ["1"]


async def test_an_unknown_relationship_is_rejected(api: Api) -> None:
    await api.person()
    response = await api.patch("/persons/1", {"type": "person", "relationships": {"cars": {}}})
    assert (response.status, response.errors) == (422, [(422, "/data/relationships/cars")])


@pytest.mark.parametrize("sent", ["2", 2, None, [], {"$gt": 0}])
async def test_the_path_identifies_the_resource_and_the_id_in_the_body_is_ignored(
    api: Api, sent: Any
) -> None:
    await api.person()
    await api.person()
    response = await api.patch(
        "/persons/1", {"type": "person", "id": sent, "attributes": {"first_name": "New"}}
    )
    assert (response.status, response.id) == (200, "1")
    assert (await api.get("/persons/2")).data["attributes"]["first_name"] == "Grace"


@pytest.mark.parametrize("identifier", ["9", "x", "0", str(2**63)])
async def test_updating_a_missing_person_is_not_found(api: Api, identifier: str) -> None:
    await api.computer()
    for data in (
        {"type": "person", "attributes": {"first_name": "New"}},
        {"type": "person", "relationships": {"computers": to_many("1")}},
    ):
        response = await api.patch(f"/persons/{identifier}", data)
        assert response.status == 404
    assert (await api.get("/persons")).data == []
    read = await api.get("/computers/1?include=owner")
    assert linkage_of(read.data) == {"owner": {"data": None}}


async def test_null_clears_the_email(api: Api) -> None:
    await api.person(email="g@example.com")
    response = await api.patch("/persons/1", {"type": "person", "attributes": {"email": None}})
    assert response.data["attributes"]["email"] is None


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
async def test_a_read_only_attribute_with_another_value_is_refused(
    api: Api, database: Database, name: str, value: Any
) -> None:
    await api.person("Grace", "Hopper")
    before = await database.persons.find_one()
    # The new full name is not the one that the client has read.
    attributes = {"last_name": "Murray", name: value}
    response = await api.patch("/persons/1", {"type": "person", "attributes": attributes})
    assert (response.status, response.errors) == (422, [(422, f"/data/attributes/{name}")])
    assert await database.persons.find_one() == before


async def test_an_invalid_update_reports_its_errors_and_changes_nothing(api: Api) -> None:
    await api.person()
    response = await api.patch(
        "/persons/1",
        {"type": "person", "attributes": {"first_name": None, "email": "x"}},
    )
    assert response.status == 422
    assert sorted(response.errors) == [
        (422, "/data/attributes/email"),
        (422, "/data/attributes/first_name"),
    ]
    response = await api.patch("/persons/1", {"type": "computer", "attributes": {}})
    assert (response.status, response.errors) == (409, [(409, "/data/type")])
    assert (await api.get("/persons/1")).data["attributes"]["full_name"] == "Grace Hopper"


async def test_an_empty_update_returns_the_resource(api: Api) -> None:
    await api.person()
    for data in ({"type": "person"}, {"type": "person", "attributes": {}, "relationships": {}}):
        response = await api.patch("/persons/1", data)
        assert (response.status, response.data) == (200, (await api.get("/persons/1")).data)


async def test_each_of_many_concurrent_replacements_returns_the_list_it_set(
    api: Api, database: Database
) -> None:
    persons = [await api.person() for _ in range(3)]
    numbers = [await api.computer() for _ in range(6)]
    requests = [
        (persons[turn % 3], [numbers[turn % 6], numbers[turn * 5 % 6], numbers[turn // 7 % 6]])
        for turn in range(90)
    ]
    responses: list[Response] = await asyncio.gather(
        *(api.set_computers(person, *computers) for person, computers in requests)
    )
    for response, (_, computers) in zip(responses, requests, strict=True):
        assert response.status == 200
        linkage = linkage_of(response.data)["computers"]["data"]
        assert [identifier["id"] for identifier in linkage] == sorted(set(computers))
    owned = [number for person in persons for number in await computers_of(api, person)]
    assert len(owned) == await database.computers.count_documents({"person": {"$ne": None}})
    assert owned


async def test_a_full_name_changed_together_with_computers_can_be_filtered(api: Api) -> None:
    await api.person("Grace", "Hopper")
    await api.computer()
    change = {"attributes": {"last_name": "Murray"}, "relationships": {"computers": to_many("1")}}
    assert (await api.patch("/persons/1", {"type": "person", **change})).status == 200
    response = await api.get("/persons?filter[full_name]=Grace Murray")
    assert response.ids == ["1"]
