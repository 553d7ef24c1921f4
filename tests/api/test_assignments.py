"""Assignments: which person had which computer, and when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from registry.model.period import LASTING
from registry.settings import Settings
from tests.conftest import Grant, Serve
from tests.support import Api, Database, linkage_of, to_many

LAST = "9999-12-31T23:59:59.999Z"


def to_one(id_: str | None) -> dict[str, Any]:
    """Return the relationship object for linkage to a person, or to none."""
    return {"data": None if id_ is None else {"type": "person", "id": id_}}


async def assignments(api: Api, parameters: str = "sort=id") -> list[Any]:
    """Return the resource objects of assignments."""
    response = await api.get(f"/assignments?{parameters}")
    assert response.status == 200, response.document
    return list(response.data)


async def periods(api: Api, parameters: str = "sort=computer,since") -> list[tuple[str, str, bool]]:
    """Return the computer and the owner of each assignment, and whether it lasts."""
    return [
        (
            one["relationships"]["computer"]["data"]["id"],
            one["relationships"]["owner"]["data"]["id"],
            one["attributes"]["until"] is None,
        )
        for one in await assignments(api, parameters)
    ]


async def set_owner(api: Api, computer: str, owner: str | None) -> None:
    path = f"/computers/{computer}/relationships/owner"
    response = await api.request("PATCH", path, to_one(owner))
    assert response.status == 204, response.document


async def test_an_assignment_shows_both_ends_and_what_they_are_now(api: Api) -> None:
    ada = await api.person("Ada", "Byron")
    computer = await api.computer("SN-1", owner=ada)
    attributes = {"last_name": "Lovelace"}
    await api.patch(f"/persons/{ada}", {"type": "person", "attributes": attributes})
    response = await api.get("/assignments/1")
    since = response.data["attributes"].pop("since")
    assert since.startswith("20")
    assert response.data == {
        "type": "assignment",
        "id": "1",
        "attributes": {"until": None, "serial": "SN-1", "owner_name": "Ada Lovelace"},
        "relationships": {
            name: {
                "data": {"type": type_, "id": id_},
                "links": {
                    "self": f"/assignments/1/relationships/{name}",
                    "related": f"/assignments/1/{name}",
                },
            }
            for name, type_, id_ in (("computer", "computer", computer), ("owner", "person", ada))
        },
        "links": {"self": "/assignments/1"},
    }


async def test_an_ended_assignment_keeps_what_the_ends_were(api: Api) -> None:
    ada, grace = await api.person("Ada", "Lovelace"), await api.person()
    computer = await api.computer("SN-1", owner=ada)
    await set_owner(api, computer, grace)
    for path, type_, name in (
        ("persons/1", "person", "last_name"),
        ("computers/1", "computer", "serial"),
    ):
        await api.patch(f"/{path}", {"type": type_, "attributes": {name: "New"}})
    ended, lasting = [one["attributes"] for one in await assignments(api)]
    assert (ended["serial"], ended["owner_name"]) == ("SN-1", "Ada Lovelace")
    assert (lasting["serial"], lasting["owner_name"]) == ("New", "Grace Hopper")
    assert ended["until"] == lasting["since"]
    assert ended["since"] < ended["until"]


async def test_the_net_change_of_a_request_counts(api: Api) -> None:
    ada, grace = await api.person("Ada"), await api.person()
    computer = await api.computer("SN-1", owner=ada)
    ref = {"type": "computer", "id": computer, "relationship": "owner"}
    moves = [{"op": "update", "ref": ref, **to_one(owner)} for owner in (grace, None, ada)]
    assert (await api.operate(*moves)).status == 200
    assert await periods(api) == [("1", "1", True)]


async def test_a_repeated_request_counts_once(api: Api) -> None:
    await api.person("Ada")
    for _ in range(2):
        body = {
            "data": {
                "type": "computer",
                "attributes": {"serial": "SN-1"},
                "relationships": {"owner": to_one("1")},
            }
        }
        response = await api.request("POST", "/computers", body, {"Idempotency-Key": '"k"'})
        assert response.status == 201
    assert await periods(api) == [("1", "1", True)]


async def test_what_is_deleted_keeps_its_identifiers(api: Api) -> None:
    ada = await api.person("Ada", "Lovelace")
    computer = await api.computer("SN-1", owner=ada)
    await api.request("DELETE", f"/persons/{ada}")
    response = await api.get("/assignments?include=owner,computer")
    assert response.included == [("computer", computer)]
    assert linkage_of(response.data[0])["owner"] == to_one(ada)
    assert response.data[0]["attributes"]["owner_name"] == "Ada Lovelace"
    response = await api.get("/assignments?include=owner&fields[assignment]=serial")
    assert linkage_of(response.data[0]) == {"owner": to_one(ada)}
    assert (await api.get("/assignments/1/owner")).data is None
    linkage = await api.get("/assignments/1/relationships/owner?include=owner")
    assert (linkage.data, linkage.included) == ({"type": "person", "id": ada}, [])
    assert (await api.get("/assignments/1/computer")).id == computer
    await api.request("DELETE", f"/computers/{computer}")
    response = await api.get("/assignments?include=owner,computer")
    assert (response.included, linkage_of(response.data[0])["owner"]) == ([], to_one(ada))


async def test_persons_and_computers_show_assignments_only_if_included(api: Api) -> None:
    ada = await api.person("Ada")
    computer = await api.computer("SN-1", owner=ada)
    assert "relationships" not in (await api.get(f"/persons/{ada}")).data
    response = await api.get(f"/computers/{computer}?include=assignments.owner")
    assert response.included == [("assignment", "1"), ("person", ada)]
    for path in (f"/persons/{ada}/assignments", f"/computers/{computer}/assignments"):
        assert (await api.get(path)).ids == ["1"]
        linkage = await api.get(path.replace("/assign", "/relationships/assign"))
        assert linkage.data == [{"type": "assignment", "id": "1"}]


@pytest.mark.parametrize(
    ("parameters", "ids"),
    [
        ("filter[serial]=OLD", ["1"]),
        ("filter[serial]=NEW", ["2"]),
        ("filter[serial][ne]=OLD", ["2", "3"]),
        ("filter[serial][contains]=e", ["2"]),
        ("filter[serial][in]=OLD,THIRD", ["1", "3"]),
        ("filter[owner_name][prefix]=Ada", ["1", "3"]),
        ("filter[owner_name][contains]=CE HOPPER", ["2"]),
        ("filter[owner_name][null]=true", []),
        ('filter=[{"not":{"name":"owner_name","op":"eq","val":"Ada Hopper"}}]', ["2"]),
        ("filter[computer.serial]=NEW", ["1", "2"]),
        ("filter[owner]=2", ["2"]),
        ("filter[until][null]=true", ["2", "3"]),
        ("filter[until][null]=false", ["1"]),
        ("filter[until][gt]=9999-12-31T23:59:59.999Z", ["2", "3"]),
        ("filter[until][lt]=2999-01-01T00:00:00Z", ["1"]),
        ("filter[until]=null", ["2", "3"]),
        ("filter[since][null]=true", []),
        ("filter[since][gt]=2000-01-01T00:00:00Z", ["1", "2", "3"]),
        ("filter[at]=2000-01-01T00:00:00Z", []),
        (f"filter[at]={LAST}", ["2", "3"]),
        ("filter[at]=0001-01-01T00:00:00Z", []),
    ],
)
async def test_filters_compare_copies_where_they_are(
    api: Api, parameters: str, ids: list[str]
) -> None:
    ada, grace = await api.person("Ada"), await api.person("Grace")
    computer = await api.computer("OLD", owner=ada)
    await set_owner(api, computer, grace)
    await api.patch(f"/computers/{computer}", {"type": "computer", "attributes": {"serial": "NEW"}})
    await api.computer("THIRD", owner=ada)
    assert (await api.get(f"/assignments?sort=id&{parameters}")).ids == ids
    page = await api.get(f"/assignments?sort=id&{parameters}&page[size]=5&page[number]=1")
    assert (page.ids, page.document["meta"]["total"]) == (ids, len(ids))


@pytest.mark.parametrize(
    "order", ["since", "-since", "until", "-until", "computer,-until", "owner"]
)
async def test_pages_follow_the_order_with_nulls(api: Api, order: str) -> None:
    ada, grace = await api.person("Ada"), await api.person("Grace")
    for number in range(3):
        computer = await api.computer(f"SN-{number}", owner=ada)
        await set_owner(api, computer, grace)
    whole = await assignments(api, f"sort={order}")
    assert len(whole) == 6
    pages = await api.pages(f"/assignments?sort={order}&page[size]=2")
    assert [one for page in pages for one in page.data] == whole
    name = order.lstrip("-")
    if name == "until":
        values = [one["attributes"]["until"] or LAST for one in whole]
        assert values == sorted(values, reverse=order.startswith("-"))


@pytest.mark.parametrize(
    ("parameters", "parameter"),
    [
        ("filter[at]=yesterday", "filter[at]"),
        ("filter[at]=2026-03-15", "filter[at]"),
        ("filter[at]=null", "filter[at]"),
        ("filter[at]=", "filter[at]"),
        ("filter[at][gt]=2026-03-15T12:00:00Z", "filter[at][gt]"),
        ("filter[at][null]=true", "filter[at][null]"),
        ('filter=[{"name":"at","op":"eq","val":null}]', "filter"),
        ("sort=at", "sort"),
        ("sort=serial", "sort"),
        ("sort=owner.last_name", "sort"),
        ("fields[assignment]=at", "fields[assignment]"),
    ],
)
async def test_parameters_that_cannot_be_served_are_refused(
    api: Api, parameters: str, parameter: str
) -> None:
    response = await api.get(f"/assignments?{parameters}")
    assert response.errors == [(400, parameter)]


async def test_persons_are_found_by_what_they_had(api: Api) -> None:
    ada = await api.person("Ada")
    await api.person("Grace")
    await api.computer("SN-1", owner=ada)
    for filter_ in (
        f"filter[assignments.at]={LAST}",
        f'filter=[{{"name":"assignments","op":"any","val":{{"name":"at","op":"eq","val":"{LAST}"}}}}]',
    ):
        assert (await api.get(f"/persons?{filter_}")).ids == [ada]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/assignments"),
        ("PATCH", "/assignments/1"),
        ("DELETE", "/assignments/1"),
        ("PATCH", "/assignments/1/relationships/owner"),
        ("PATCH", "/persons/1/relationships/assignments"),
        ("POST", "/persons/1/relationships/assignments"),
        ("DELETE", "/computers/1/relationships/assignments"),
    ],
)
async def test_assignments_are_read_only(api: Api, method: str, path: str) -> None:
    await api.computer("SN-1", owner=await api.person())
    response = await api.request(method, path, {"data": []})
    assert response.errors == [(405, "")]
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
    async with api.client.options(path) as options:
        assert options.headers["Allow"] == "GET, HEAD, OPTIONS"


async def test_documents_cannot_write_assignments(api: Api) -> None:
    await api.computer("SN-1", owner=await api.person())
    linkage = {"assignments": to_many(type="assignment")}
    response = await api.patch("/persons/1", {"type": "person", "relationships": linkage})
    assert response.errors == [(422, "/data/relationships/assignments")]
    ref = {"type": "assignment", "id": "1"}
    for operation in (
        {"op": "remove", "ref": ref},
        {"op": "update", "data": {**ref, "attributes": {}}},
        {"op": "add", "data": {"type": "assignment", "attributes": {}}},
        {"op": "update", "ref": {**ref, "relationship": "owner"}, "data": None},
        {
            "op": "add",
            "ref": {"type": "person", "id": "1", "relationship": "assignments"},
            "data": [ref],
        },
    ):
        response = await api.operate(operation)
        assert response.errors == [(400, "/atomic:operations/0")]


async def test_an_assignment_without_ends_is_shown(api: Api, database: Database) -> None:
    lasting = {"since": datetime(2026, 1, 1, tzinfo=UTC), "until": LASTING}
    await database.assignments.insert_one({"_id": 1, **lasting})
    assert (await assignments(api))[0]["attributes"]["owner_name"] is None
    for path in ("relationships/owner", "owner", "relationships/computer", "computer"):
        response = await api.get(f"/assignments/1/{path}")
        assert (response.status, response.data) == (200, None)
    response = await api.get("/assignments/1?include=owner,computer")
    assert response.data["relationships"]["owner"]["data"] is None


@pytest.mark.parametrize(
    ("scopes", "path", "status"),
    [
        (("persons:read", "computers:read"), "/assignments?include=owner", 200),
        (("read",), "/assignments/1", 200),
        (("persons:read",), "/assignments", 403),
        (("computers:read",), "/assignments/1", 403),
        (("computers:read",), "/computers/1/assignments", 403),
        (("persons:read",), "/persons/1?include=assignments", 403),
        (("persons:read",), f"/persons?filter[assignments.at]={LAST}", 403),
        (("persons:read", "computers:write"), "/persons/1/relationships/assignments", 200),
    ],
)
async def test_both_types_have_to_be_readable(
    serve: Serve, secured: Settings, grant: Grant, scopes: tuple[str, ...], path: str, status: int
) -> None:
    api = await serve(settings=secured)
    writer = {"Authorization": f"Bearer {await grant('write')}"}
    await add_computer_with_owner(api, writer)
    token = await grant(*scopes)
    assert (await api.get(path, Authorization=f"Bearer {token}")).status == status


async def add_computer_with_owner(api: Api, headers: Mapping[str, str]) -> None:
    for type_, attributes in (
        ("person", {"first_name": "A", "last_name": "B"}),
        ("computer", {"serial": "S"}),
    ):
        data: dict[str, Any] = {"type": type_, "attributes": attributes}
        if type_ == "computer":
            data["relationships"] = {"owner": to_one("1")}
        await api.request("POST", f"/{type_}s", {"data": data}, headers)


async def test_who_assigned_and_who_ended_are_sent_where_fields_names_them(
    serve: Serve, secured: Settings, grant: Grant
) -> None:
    api = await serve(settings=secured)
    first, second = await grant("write"), await grant("write")
    await add_computer_with_owner(api, {"Authorization": f"Bearer {first}"})
    headers = {"Authorization": f"Bearer {second}"}
    path = "/assignments/1?fields[assignment]=created_by,updated_by"
    assert (await api.get(path, **headers)).data["attributes"] == {
        "created_by": "0",
        "updated_by": None,
    }
    await api.request("DELETE", "/persons/1", headers=headers)
    assert (await api.get(path, **headers)).data["attributes"] == {
        "created_by": "0",
        "updated_by": "1",
    }
    assert "relationships" not in (await api.get(path, **headers)).data
