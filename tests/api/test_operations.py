"""Atomic Operations: several operations in one request, applied all or none."""

from __future__ import annotations

import json
from typing import Any

from tests.jsonapi.test_operation_documents import COMPUTER, PERSON
from tests.support import (
    OPERATIONS,
    Api,
    Database,
    Response,
    linkage_of,
    stored_records,
    to_many,
)

GRACE = {"type": "person", "id": "1"}


def errors(response: Response) -> list[tuple[int, str]]:
    """Return the status of each error, and its pointer relative to the array of operations."""
    return [(status, pointer.removeprefix(f"/{OPERATIONS}")) for status, pointer in response.errors]


def reference(type_name: str, number: str, relationship: str | None = None) -> dict[str, Any]:
    ref = {"type": type_name, "id": number}
    return {"ref": ref if relationship is None else {**ref, "relationship": relationship}}


async def test_operations_are_applied_in_order_and_so_are_their_results(api: Api) -> None:
    owner = {"data": {"type": "person", "lid": "grace"}}
    response = await api.operate(
        {"op": "add", "data": {**PERSON, "lid": "grace"}},
        {"op": "add", "data": {**COMPUTER, "lid": "first", "relationships": {"owner": owner}}},
        {"op": "add", "href": "/computers", "data": {**COMPUTER, "lid": "second"}},
        {
            "op": "add",
            "ref": {"type": "person", "lid": "grace", "relationship": "computers"},
            "data": [{"type": "computer", "lid": "second"}],
        },
        {
            "op": "update",
            "data": {"type": "person", "lid": "grace", "attributes": {"last_name": "Murray"}},
        },
        {"op": "remove", "ref": {"type": "computer", "lid": "first"}},
    )
    assert response.status == 200
    added, first, second, related, updated, removed = response.results
    assert added["data"]["attributes"]["last_name"] == "Hopper"
    assert linkage_of(first["data"]) == {"owner": {"data": {"type": "person", "id": "1"}}}
    assert second["data"]["id"] == "2"
    assert related == {}
    assert updated["data"]["attributes"]["full_name"] == "Grace Murray"
    assert removed == {}
    assert (await api.get("/persons/1")).data == updated["data"]
    read = await api.get("/persons/1?include=computers")
    assert linkage_of(read.data) == {"computers": to_many("2")}


async def test_a_result_equals_the_response_to_a_separate_request(api: Api) -> None:
    added = await api.operate({"op": "add", "data": PERSON}, {"op": "add", "data": COMPUTER})
    created = [await api.post("/persons", PERSON), await api.post("/computers", COMPUTER)]
    for result, separate in zip(added.results, created, strict=True):
        assert separate.id == "2"
        assert result["data"] == json.loads(
            json.dumps(separate.data).replace("s/2", "s/1").replace('"2"', '"1"')
        )
    change = {
        "type": "person",
        "attributes": {"email": "g@example.com"},
        "relationships": {"computers": to_many("2", "1")},
    }
    updated = await api.operate({"op": "update", "href": "/persons/1", "data": change})
    assert updated.results == [{"data": (await api.patch("/persons/1", change)).data}]
    assert linkage_of(updated.results[0]["data"]) == {"computers": to_many("1", "2")}


async def test_relationship_members_are_added_removed_replaced_and_cleared(api: Api) -> None:
    await api.person()
    for _ in range(3):
        await api.computer()
    computers, owner = reference("person", "1", "computers"), reference("computer", "1", "owner")
    steps: list[tuple[dict[str, Any], list[str]]] = [
        ({"op": "add", **computers, "data": to_many("1", "2")["data"]}, ["1", "2"]),
        ({"op": "add", **computers, "data": to_many("2", "3")["data"]}, ["1", "2", "3"]),
        ({"op": "remove", **computers, "data": to_many("1", "9")["data"]}, ["2", "3"]),
        ({"op": "update", **computers, "data": to_many("1")["data"]}, ["1"]),
        ({"op": "update", **owner, "data": None}, []),
        ({"op": "update", **owner, "data": {"type": "person", "id": "1"}}, ["1"]),
        ({"op": "update", "href": "/persons/1/relationships/computers", "data": []}, []),
    ]
    for operation, expected in steps:
        response = await api.operate(operation)
        assert (response.status, response.results) == (200, [{}])
        read = await api.get("/persons/1?include=computers")
        assert linkage_of(read.data) == {"computers": to_many(*expected)}


FAILING: list[tuple[dict[str, Any], tuple[int, str]]] = [
    ({"op": "remove", **reference("person", "9")}, (404, "/6/ref/id")),
    ({"op": "remove", "href": "/persons/x"}, (404, "/6/href")),
    ({"op": "remove", **reference("person", str(2**63))}, (404, "/6/ref/id")),
    ({"op": "update", "data": {"type": "person", "id": "9"}}, (404, "/6/data/id")),
    ({"op": "remove", "ref": {"type": "computer", "lid": "gone"}}, (404, "/6/ref/lid")),
    ({"op": "update", **reference("person", "9", "computers"), "data": []}, (404, "/6/ref/id")),
    (
        {"op": "add", **reference("person", "1", "computers"), "data": to_many("9")["data"]},
        (404, "/6/data/0/id"),
    ),
    (
        {"op": "update", **reference("computer", "1", "owner"), "data": {**GRACE, "id": "9"}},
        (404, "/6/data/id"),
    ),
    (
        {"op": "add", "data": {**PERSON, "relationships": {"computers": to_many("1", "9")}}},
        (404, "/6/data/relationships/computers/data/1/id"),
    ),
    ({"op": "add", "href": "/persons", "data": COMPUTER}, (409, "/6/data/type")),
    ({"op": "add", "data": {"type": "computer"}}, (422, "/6/data/attributes/serial")),
]
"""A last operation, and the error that it causes."""


async def test_a_failing_last_operation_rolls_back_all_others(api: Api, database: Database) -> None:
    await api.person()
    await api.person()
    await api.computer(owner="2")
    before = await stored_records(database)
    for failing, expected in FAILING:
        response = await api.operate(
            {"op": "add", "data": PERSON},
            {"op": "add", "data": {**COMPUTER, "lid": "gone"}},
            {"op": "update", "href": "/persons/1", "data": GRACE | {"attributes": {"email": None}}},
            {"op": "add", **reference("person", "1", "computers"), "data": to_many("1")["data"]},
            {"op": "remove", **reference("person", "2")},
            {"op": "remove", "ref": {"type": "computer", "lid": "gone"}},
            failing,
        )
        assert (response.status, errors(response)) == (expected[0], [expected])
        detail = response.document["errors"][0]["detail"]
        assert ("local id" in detail) is expected[1].endswith("/lid")
        assert await stored_records(database) == before
    assert int(await api.person()) > 2, "ids may have gaps, but are never reused"


async def test_an_added_resource_can_be_changed_in_the_same_request(
    api: Api, database: Database
) -> None:
    person = {"type": "person", "lid": "a"}
    response = await api.operate(
        {"op": "add", "data": {**PERSON, **person}},
        {"op": "add", "data": {**COMPUTER, "relationships": {"owner": {"data": person}}}},
        {"op": "update", "data": {**person, "attributes": {"first_name": "Mary"}}},
        {"op": "update", "data": {**person, "attributes": {"last_name": "Murray"}}},
        {"op": "remove", "ref": person},
    )
    names = [result["data"]["attributes"].get("full_name") for result in response.results[2:4]]
    assert names == ["Mary Hopper", "Mary Murray"]
    persons, (computer,) = await stored_records(database)
    assert (persons, computer["person"]) == ([], None)


async def test_a_reference_to_a_removed_resource_is_reported_by_its_local_id(api: Api) -> None:
    person = {"type": "person", "lid": "a"}
    response = await api.operate(
        {"op": "add", "data": {**PERSON, **person}},
        {"op": "remove", "ref": person},
        {"op": "update", "data": {**person, "attributes": {"first_name": "Mary"}}},
    )
    assert response.errors == [(404, "/atomic:operations/2/data/lid")]
    assert "`a`" in response.document["errors"][0]["detail"]


async def test_operations_change_the_etags_of_the_resources_they_write(api: Api) -> None:
    await api.person()
    await api.computer()
    old = [(await api.get(path)).headers["ETag"] for path in ("/persons/1", "/computers/1")]
    assert (
        await api.operate(
            {"op": "add", **reference("person", "1", "computers"), "data": to_many("1")["data"]}
        )
    ).status == 200
    for path, tag, name in zip(
        ("/persons/1", "/computers/1"), old, ("person", "computer"), strict=True
    ):
        assert (await api.get(path)).headers["ETag"] != tag
        body = {"data": {"type": name}}
        rejected = await api.request("PATCH", path, body, headers={"If-Match": tag})
        assert rejected.status == 412


async def test_operations_have_no_parameters(api: Api) -> None:
    for name in ("include", "fields[person]", "x", "page[size]"):
        document = {OPERATIONS: [{"op": "add", "data": PERSON}]}
        response = await api.request("POST", f"/operations?{name}=", document)
        assert response.errors == [(400, name)]
    assert (await api.get("/persons")).data == []


async def test_operations_compare_with_what_preceding_ones_have_left(api: Api) -> None:
    await api.person("Grace", "Hopper")

    def update(**attributes: str) -> Any:
        return {"op": "update", "data": {"type": "person", "id": "1", "attributes": attributes}}

    response = await api.operate(
        update(last_name="Murray"), update(full_name="Grace Murray", first_name="G")
    )
    assert response.status == 200, response.document
    assert (await api.get("/persons/1")).data["attributes"]["full_name"] == "G Murray"
    refused = await api.operate(update(last_name="M"), update(full_name="G Murray"))
    assert errors(refused) == [(422, "/1/data/attributes/full_name")]
    assert (await api.get("/persons/1")).data["attributes"]["full_name"] == "G Murray"
