"""Assignments: which person had which computer, and when."""

from datetime import UTC, datetime
from typing import Any

from tests.conftest import Header
from tests.support import (
    PERSON,
    Api,
    Database,
    add,
    identifier,
    linkage_of,
    new,
    to_many,
    to_one,
)

LAST = "9999-12-31T23:59:59.999Z"
OWNED = new("computer", {"owner": to_one("1")}, serial="SN-1")


async def assignments(api: Api, parameters: str = "sort=id") -> list[Any]:
    """Return the resource objects of assignments."""
    response = await api.get(f"/assignments?{parameters}")
    assert response.status == 200, response.document
    return list(response.data)


async def set_owner(api: Api, computer: str, owner: str | None) -> None:
    path = f"/computers/{computer}/relationships/owner"
    assert (await api.patch(path, to_one(owner)["data"])).status == 204


async def test_an_assignment_shows_both_ends_and_no_copies_while_it_lasts(api: Api) -> None:
    ada = await api.person("Ada", "Byron")
    computer = await api.computer("SN-1", owner=ada)
    await api.patch(f"/persons/{ada}", new("person", last_name="Lovelace"))
    response = await api.get("/assignments/1")
    since = response.data["attributes"].pop("since")
    assert since.startswith("20")
    path = "/assignments/1"
    ends = {"computer": to_one(computer, "computer"), "owner": to_one(ada)}
    assert response.data == {
        **identifier("assignment", "1"),
        "attributes": {"until": None, "serial": None, "owner_name": None},
        "relationships": {
            name: {
                **end,
                "links": {"self": f"{path}/relationships/{name}", "related": f"{path}/{name}"},
            }
            for name, end in ends.items()
        },
        "links": {"self": path},
    }


async def test_an_ended_assignment_keeps_what_the_ends_were(api: Api) -> None:
    ada, grace = await api.person("Ada", "Lovelace"), await api.person()
    computer = await api.computer("SN-1", owner=ada)
    await set_owner(api, computer, grace)
    await api.patch(f"/persons/{ada}", new("person", last_name="New"))
    await api.patch(f"/computers/{computer}", new("computer", serial="New"))
    ended, lasting = [assignment["attributes"] for assignment in await assignments(api)]
    assert (ended["serial"], ended["owner_name"]) == ("SN-1", "Ada Lovelace")
    assert (lasting["serial"], lasting["owner_name"]) == (None, None)
    assert ended["since"] < ended["until"] == lasting["since"]


async def test_the_net_change_of_a_request_counts(api: Api) -> None:
    ada, grace = await api.person("Ada"), await api.person()
    await api.computer("SN-1", owner=ada)
    ref = {**identifier("computer", "1"), "relationship": "owner"}
    moves = [{"op": "update", "ref": ref, **to_one(owner)} for owner in (grace, None, ada)]
    assert (await api.operate(*moves)).status == 200
    (only,) = await assignments(api)
    assert (linkage_of(only)["owner"], only["attributes"]["until"]) == (to_one(ada), None)


async def test_persons_and_computers_show_assignments_only_if_included(api: Api) -> None:
    ada = await api.person("Ada")
    await api.person("Grace")
    computer = await api.computer("SN-1", owner=ada)
    assert "relationships" not in (await api.get(f"/persons/{ada}")).data
    response = await api.get(f"/computers/{computer}?include=assignments.owner")
    assert response.included == [("assignment", "1"), ("person", ada)]
    for path in (f"/persons/{ada}/assignments", f"/computers/{computer}/assignments"):
        assert (await api.get(path)).ids == ["1"]
        linkage = await api.get(path.replace("/assign", "/relationships/assign"))
        assert linkage.data == [identifier("assignment", "1")]
    condition = f'{{"name":"at","op":"eq","val":"{LAST}"}}'
    combined = f'filter=[{{"name":"assignments","op":"any","val":{condition}}}]'
    for filter_ in (f"filter[assignments.at]={LAST}", combined):
        assert (await api.get(f"/persons?{filter_}")).ids == [ada]


async def test_assignments_of_deleted_resources_keep_their_identifiers(api: Api) -> None:
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


FOUND: list[tuple[str, list[str]]] = [
    ("filter[serial]=OLD", ["1"]),
    ("filter[serial]=NEW", []),
    ("filter[serial]=null", ["2", "3"]),
    ("filter[owner_name][prefix]=Ada", ["1"]),
    ("filter[owner_name][contains]=DA HOPPER", ["1"]),
    ('filter=[{"not":{"name":"owner_name","op":"eq","val":"Ada Hopper"}}]', ["2", "3"]),
    ("filter[owner.full_name]=Ada Hopper", ["1", "3"]),
    ("filter[computer.serial]=NEW", ["1", "2"]),
    ("filter[owner]=2", ["2"]),
    ("filter[until][null]=true", ["2", "3"]),
    (f"filter[until][gt]={LAST}", []),
    ("filter[until][lt]=2999-01-01T00:00:00Z", ["1"]),
    ("filter[until]=null", ["2", "3"]),
    ("filter[since][gt]=2000-01-01T00:00:00Z", ["1", "2", "3"]),
    ("filter[at]=2000-01-01T00:00:00Z", []),
    (f"filter[at]={LAST}", ["2", "3"]),
]
"""Filters, and the assignments that they find."""


async def test_filters_compare_what_is_stored_and_moments(api: Api) -> None:
    ada, grace = await api.person("Ada"), await api.person("Grace")
    computer = await api.computer("OLD", owner=ada)
    await set_owner(api, computer, grace)
    await api.patch(f"/computers/{computer}", new("computer", serial="NEW"))
    await api.computer("THIRD", owner=ada)
    for parameters, ids in FOUND:
        assert (await api.get(f"/assignments?sort=id&{parameters}")).ids == ids, parameters
        page = await api.get(f"/assignments?sort=id&{parameters}&page[size]=5&page[number]=1")
        assert (page.ids, page.document["meta"]["total"]) == (ids, len(ids))


async def test_pages_follow_the_order_with_nulls(api: Api) -> None:
    ada, grace = await api.person("Ada"), await api.person("Grace")
    for number in range(3):
        computer = await api.computer(f"SN-{number}", owner=ada)
        await set_owner(api, computer, grace)
    for order in ("since", "-since", "until", "-until", "computer,-until", "owner"):
        whole = await assignments(api, f"sort={order}")
        assert len(whole) == 6
        pages = await api.pages(f"/assignments?sort={order}&page[size]=2")
        assert [resource for page in pages for resource in page.data] == whole
        if order.endswith("until") and "," not in order:
            values = [resource["attributes"]["until"] or "" for resource in whole]
            assert values == sorted(values, reverse=order.startswith("-"))


async def test_parameters_that_cannot_be_served_are_refused(api: Api) -> None:
    for value in (
        *("filter[at]=yesterday", "filter[at]=2026-03-15", "filter[at]=null", "filter[at]="),
        *(f"filter[at][gt]={LAST}", "filter[at][null]=true"),
        'filter=[{"name":"at","op":"eq","val":null}]',
        *("sort=at", "sort=serial", "sort=owner.last_name", "fields[assignment]=at"),
    ):
        response = await api.get(f"/assignments?{value}")
        assert response.errors == [(400, value.partition("=")[0])], value


async def test_assignments_are_read_only(api: Api) -> None:
    await api.create(PERSON)
    await api.create(OWNED)
    for method, path in (
        *[("POST", "/assignments"), ("PATCH", "/assignments/1"), ("DELETE", "/assignments/1")],
        ("PATCH", "/assignments/1/relationships/owner"),
        *((method, "/persons/1/relationships/assignments") for method in ("PATCH", "POST")),
        ("DELETE", "/computers/1/relationships/assignments"),
    ):
        response = await api.send(method, path, [])
        assert response.errors == [(405, "")]
        for refusal in (response, await api.fetch(path, "OPTIONS")):
            assert refusal.headers["Allow"] == "GET, HEAD, OPTIONS"
    linkage = {"assignments": to_many(type="assignment")}
    response = await api.patch("/persons/1", new("person", linkage))
    assert response.errors == [(422, "/data/relationships/assignments")]
    ref = identifier("assignment", "1")
    related = {**identifier("person", "1"), "relationship": "assignments"}
    for operation in (
        {"op": "remove", "ref": ref},
        {"op": "update", "data": {**ref, "attributes": {}}},
        add({"type": "assignment", "attributes": {}}),
        {"op": "update", "ref": {**ref, "relationship": "owner"}, "data": None},
        {"op": "add", "ref": related, "data": [ref]},
    ):
        assert (await api.operate(operation)).errors == [(400, "/atomic:operations/0")]


async def test_an_assignment_without_ends_is_shown(api: Api, database: Database) -> None:
    lasting = {"since": datetime(2026, 1, 1, tzinfo=UTC), "until": None}
    await database.assignments.insert_one({"_id": 1, **lasting})
    assert (await assignments(api))[0]["attributes"]["owner_name"] is None
    for path in ("relationships/owner", "owner", "relationships/computer", "computer"):
        response = await api.get(f"/assignments/1/{path}")
        assert (response.status, response.data) == (200, None)
    response = await api.get("/assignments/1?include=owner,computer")
    assert response.data["relationships"]["owner"]["data"] is None


async def test_both_types_have_to_be_readable(guarded: Api, header: Header) -> None:
    first, second = await header("write"), await header("write")
    await guarded.create(PERSON, **first)
    await guarded.create(OWNED, **first)
    for scopes, path, status in (
        (("persons:read", "computers:read"), "/assignments?include=owner", 200),
        (("read",), "/assignments/1", 200),
        (("persons:read",), "/assignments", 403),
        (("computers:read",), "/assignments/1", 403),
        (("computers:read",), "/computers/1/assignments", 403),
        (("persons:read",), "/persons/1?include=assignments", 403),
        (("persons:read",), f"/persons?filter[assignments.at]={LAST}", 403),
        (("persons:read", "computers:write"), "/persons/1/relationships/assignments", 200),
    ):
        assert (await guarded.get(path, **await header(*scopes))).status == status, path
    # Who assigned, and who ended it.
    path = "/assignments/1?fields[assignment]=created_by,updated_by"
    authors = [(await guarded.get(path, **second)).data["attributes"]]
    await guarded.delete("/persons/1", **second)
    ended = (await guarded.get(path, **second)).data
    authors.append(ended["attributes"])
    assert [(author["created_by"], author["updated_by"]) for author in authors] == [
        ("0", None),
        ("0", "1"),
    ]
    assert "relationships" not in ended
