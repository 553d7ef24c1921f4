"""Atomic Operations: several operations in one request, applied all or none."""

import json
from typing import Any

from tests.support import (
    COMPUTER,
    OPERATIONS,
    PERSON,
    Api,
    Database,
    Response,
    add,
    identifier,
    linkage_of,
    new,
    stored_records,
    to_many,
    to_one,
    update,
)

LOCAL = {"type": "person", "lid": "a"}
GRACE = identifier("person", "1")
COMPUTERS = {**GRACE, "relationship": "computers"}
OWNER = {**identifier("computer", "1"), "relationship": "owner"}


def errors(response: Response) -> list[tuple[int, str]]:
    """Return the status of each error, and its pointer relative to the array of operations."""
    return [(status, pointer.removeprefix(f"/{OPERATIONS}")) for status, pointer in response.errors]


async def test_operations_are_applied_in_order_and_so_are_their_results(api: Api) -> None:
    response = await api.operate(
        add(PERSON, "a"),
        add(COMPUTER | {"relationships": {"owner": {"data": LOCAL}}}, "first"),
        {**add(COMPUTER, "second"), "href": "/computers"},
        {
            "op": "add",
            "ref": {**LOCAL, "relationship": "computers"},
            "data": [{"type": "computer", "lid": "second"}],
        },
        update(new("person", last_name="Murray"), lid="a"),
        {"op": "remove", "ref": {"type": "computer", "lid": "first"}},
    )
    assert response.status == 200
    added, first, second, related, updated, removed = response.results
    assert added["data"]["attributes"]["last_name"] == "Hopper"
    assert linkage_of(first["data"]) == {"owner": to_one("1")}
    assert second["data"]["id"] == "2"
    assert (related, removed) == ({}, {})
    assert updated["data"]["attributes"]["full_name"] == "Grace Murray"
    assert (await api.get("/persons/1")).data == updated["data"]
    read = await api.get("/persons/1?include=computers")
    assert linkage_of(read.data) == {"computers": to_many("2")}


async def test_a_result_equals_the_response_to_a_separate_request(api: Api) -> None:
    added = await api.operate(add(PERSON), add(COMPUTER))
    created = [await api.post("/persons", PERSON), await api.post("/computers", COMPUTER)]
    for result, separate in zip(added.results, created, strict=True):
        assert separate.id == "2"
        assert result["data"] == json.loads(
            json.dumps(separate.data).replace("s/2", "s/1").replace('"2"', '"1"')
        )
    change = new("person", {"computers": to_many("2", "1")}, email="g@example.com")
    updated = await api.operate({"op": "update", "href": "/persons/1", "data": change})
    assert updated.results == [{"data": (await api.patch("/persons/1", change)).data}]
    assert linkage_of(updated.results[0]["data"]) == {"computers": to_many("1", "2")}


async def test_relationship_members_are_added_removed_replaced_and_cleared(api: Api) -> None:
    await api.person()
    for _ in range(3):
        await api.computer()
    steps: list[tuple[str, dict[str, Any], Any, list[str]]] = [
        ("add", {"ref": COMPUTERS}, to_many("1", "2"), ["1", "2"]),
        ("add", {"ref": COMPUTERS}, to_many("2", "3"), ["1", "2", "3"]),
        ("remove", {"ref": COMPUTERS}, to_many("1", "9"), ["2", "3"]),
        ("update", {"ref": COMPUTERS}, to_many("1"), ["1"]),
        ("update", {"ref": OWNER}, to_one(None), []),
        ("update", {"ref": OWNER}, to_one("1"), ["1"]),
        ("update", {"href": "/persons/1/relationships/computers"}, to_many(), []),
    ]
    for verb, target, linkage, expected in steps:
        response = await api.operate({"op": verb, **target, **linkage})
        assert (response.status, response.results) == (200, [{}])
        read = await api.get("/persons/1?include=computers")
        assert linkage_of(read.data) == {"computers": to_many(*expected)}


LINKED = new("person", {"computers": to_many("1", "9")}, first_name="A", last_name="B")

FAILING: list[tuple[dict[str, Any], tuple[int, str]]] = [
    ({"op": "remove", "ref": identifier("person", "9")}, (404, "/6/ref/id")),
    ({"op": "remove", "href": "/persons/x"}, (404, "/6/href")),
    ({"op": "remove", "ref": identifier("person", str(2**63))}, (404, "/6/ref/id")),
    (update({"type": "person"}, id="9"), (404, "/6/data/id")),
    ({"op": "remove", "ref": {"type": "computer", "lid": "gone"}}, (404, "/6/ref/lid")),
    ({"op": "update", "ref": {**COMPUTERS, "id": "9"}, "data": []}, (404, "/6/ref/id")),
    ({"op": "add", "ref": COMPUTERS, **to_many("9")}, (404, "/6/data/0/id")),
    ({"op": "update", "ref": OWNER, **to_one("9")}, (404, "/6/data/id")),
    (add(LINKED), (404, "/6/data/relationships/computers/data/1/id")),
    ({**add(COMPUTER), "href": "/persons"}, (409, "/6/data/type")),
    (add({"type": "computer"}), (422, "/6/data/attributes/serial")),
]
"""A last operation, and the error that it causes."""


async def test_a_failing_last_operation_rolls_back_all_others(api: Api, database: Database) -> None:
    await api.person()
    await api.person()
    await api.computer(owner="2")
    before = await stored_records(database)
    for failing, expected in FAILING:
        response = await api.operate(
            add(PERSON),
            add(COMPUTER, "gone"),
            {"op": "update", "href": "/persons/1", "data": new("person", email=None)},
            {"op": "add", "ref": COMPUTERS, **to_many("1")},
            {"op": "remove", "ref": identifier("person", "2")},
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
    changes = [
        add(PERSON, "a"),
        add(COMPUTER | {"relationships": {"owner": {"data": LOCAL}}}),
        update(new("person", first_name="Mary"), lid="a"),
        update(new("person", last_name="Murray"), lid="a"),
        {"op": "remove", "ref": LOCAL},
    ]
    response = await api.operate(*changes)
    names = [result["data"]["attributes"].get("full_name") for result in response.results[2:4]]
    assert names == ["Mary Hopper", "Mary Murray"]
    persons, (computer,) = await stored_records(database)
    assert (persons, computer["person"]) == ([], None)


async def test_operations_have_no_parameters(api: Api) -> None:
    for name in ("include", "fields[person]", "x", "page[size]"):
        response = await api.request("POST", f"/operations?{name}=", {OPERATIONS: [add(PERSON)]})
        assert response.errors == [(400, name)]
    assert (await api.get("/persons")).data == []


async def test_operations_compare_with_what_preceding_ones_have_left(api: Api) -> None:
    await api.person("Grace", "Hopper")

    def change(**attributes: str) -> Any:
        return update(new("person", **attributes), id="1")

    response = await api.operate(
        change(last_name="Murray"), change(full_name="Grace Murray", first_name="G")
    )
    assert response.status == 200, response.document
    refused = await api.operate(change(last_name="M"), change(full_name="G Murray"))
    assert errors(refused) == [(422, "/1/data/attributes/full_name")]
    assert (await api.get("/persons/1")).data["attributes"]["full_name"] == "G Murray"
