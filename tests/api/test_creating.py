"""POST on a collection: the service assigns the id and returns the new resource."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import Api, Database

GRACE = {"first_name": "Grace", "last_name": "Hopper", "email": "grace@example.com"}


async def test_creating_a_person_returns_its_attributes_and_id(api: Api) -> None:
    response = await api.post("/persons", {"type": "person", "attributes": GRACE})
    assert response.status == 201
    assert response.document == {
        "data": {"type": "person", "id": "1", "attributes": GRACE, "links": {"self": "/persons/1"}},
        "jsonapi": {"version": "1.0"},
        "links": {"self": "/persons/1"},
    }
    assert response.headers["Location"] == "/persons/1"


async def test_any_client_generated_id_is_ignored(api: Api) -> None:
    sent: list[Any] = ["7", 7, None, [], {"$gt": 0}, 2**80, True, "x" * 300]
    for number, id_ in enumerate(sent, 1):
        response = await api.post("/persons", {"type": "person", "id": id_, "attributes": GRACE})
        assert (response.status, response.id) == (201, f"{number}")


NAMES = ["x" * 255, "😀" * 255, "  spaced  ", "nul\0inside", "$where", "a.b", "\u202e", "\n", "0"]


async def test_names_and_serials_are_stored_unchanged(api: Api) -> None:
    for name in NAMES:
        person, computer = await api.person(name, name), await api.computer(name)
        attributes = (await api.get(f"/persons/{person}")).data["attributes"]
        assert attributes["first_name"] == attributes["last_name"] == name
        assert attributes["full_name"] == f"{name} {name}"
        assert (await api.get(f"/computers/{computer}")).data["attributes"]["serial"] == name


async def test_all_missing_attributes_are_reported_together(api: Api) -> None:
    for data in ({"type": "person"}, {"type": "person", "attributes": {}}):
        response = await api.post("/persons", data)
        assert response.status == 422
        assert response.errors == [
            (422, "/data/attributes/first_name"),
            (422, "/data/attributes/last_name"),
        ]
    response = await api.post("/computers", {"type": "computer"})
    assert (response.status, response.errors) == (422, [(422, "/data/attributes/serial")])


async def test_read_only_and_unknown_attributes_are_rejected(api: Api) -> None:
    extra = {"full_name": "G H", "password": "secret", "rank": 1, "a/b~c": 1, "computers": []}
    response = await api.post("/persons", {"type": "person", "attributes": GRACE | extra})
    assert response.status == 422
    assert response.errors == [
        (422, "/data/attributes/full_name"),
        (422, "/data/attributes/password"),
        (422, "/data/attributes/rank"),
        (422, "/data/attributes/a~1b~0c"),
        (422, "/data/attributes/computers"),
    ]
    details = [error["detail"] for error in response.document["errors"]]
    assert details[:2] == ["This attribute is read-only."] * 2
    assert (await api.get("/persons")).data == []


@pytest.mark.parametrize("sent", ["computer", "persons", "Person", "", "person "])
async def test_a_type_that_does_not_match_the_path_hides_other_errors(api: Api, sent: str) -> None:
    await api.person()
    data = {"type": sent, "attributes": {"serial": "SN-1"}, "relationships": {"x": 1}}
    for response in (await api.post("/persons", data), await api.patch("/persons/1", data)):
        assert (response.status, response.errors) == (409, [(409, "/data/type")])
    assert (await api.get("/persons")).ids == ["1"]


async def test_errors_of_different_kinds_are_reported_together_with_status_400(api: Api) -> None:
    response = await api.post(
        "/persons",
        {
            "type": "person",
            "attributes": {"first_name": 5, "age": 3},
            "relationships": {"computers": {"data": [{"type": "person", "id": []}]}, "cars": {}},
        },
    )
    assert response.status == 400
    assert sorted(response.errors) == [
        (400, "/data/relationships/computers/data/0/id"),
        (409, "/data/relationships/computers/data/0/type"),
        (422, "/data/attributes/age"),
        (422, "/data/attributes/first_name"),
        (422, "/data/attributes/last_name"),
        (422, "/data/relationships/cars"),
    ]


async def test_a_link_to_a_missing_resource_stores_nothing(api: Api, database: Database) -> None:
    response = await api.post(
        "/computers",
        {
            "type": "computer",
            "attributes": {"serial": "SN-1"},
            "relationships": {"owner": {"data": {"type": "person", "id": "9"}}},
        },
    )
    assert (response.status, response.errors) == (404, [(404, "/data/relationships/owner/data/id")])
    assert await database.computers.count_documents({}) == 0
    assert await api.computer() == "2", "an id is never reused, even if the creation failed"


async def test_the_password_is_never_returned(api: Api, database: Database) -> None:
    await api.person()
    record = await database.persons.find_one({"_id": 1})
    assert record is not None
    assert record["password"] is None
    await database.persons.update_one({"_id": 1}, {"$set": {"password": "$2b$hash"}})
    await api.computer(owner="1")
    for path in ("/persons", "/persons/1", "/computers/1?include=owner"):
        async with api.client.get(path) as raw:
            text = await raw.text()
        assert "password" not in text
        assert "hash" not in text
    response = await api.patch("/persons/1", {"type": "person", "attributes": {"first_name": "G"}})
    assert "password" not in response.data["attributes"]
    record = await database.persons.find_one({"_id": 1})
    assert record is not None
    assert record["password"] == "$2b$hash"
