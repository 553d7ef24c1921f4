"""DELETE: JSON:API 1.0, Deleting Resources."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support import Api, Database, linkage_of, to_many

ROUNDS = 16
"""Repetitions of each race between deletions and link changes."""


async def owners(database: Database) -> dict[int, Any]:
    """Return the stored owner of each computer by id."""
    return {
        record["_id"]: record["person"] async for record in database.computers.find().sort("_id")
    }


async def check_links(database: Database) -> None:
    """Check that every stored owner exists."""
    persons = await database.persons.distinct("_id")
    assert set((await owners(database)).values()) <= {*persons, None}


async def test_a_deleted_computer_no_longer_exists(api: Api, database: Database) -> None:
    await api.person()
    await api.computer(owner="1")
    await api.computer(owner="1")
    response = await api.request("DELETE", "/computers/1")
    assert (response.status, response.document) == (204, None)
    assert "Content-Type" not in response.headers
    for method in ("GET", "DELETE"):
        response = await api.request(method, "/computers/1")
        assert (response.status, response.errors) == (404, [(404, "")])
    assert (await api.get("/computers")).ids == ["2"]
    read = await api.get("/persons/1?include=computers")
    assert linkage_of(read.data) == {"computers": to_many("2")}
    assert await owners(database) == {2: 1}


async def test_computers_of_a_deleted_person_become_unowned(api: Api, database: Database) -> None:
    await api.person()
    await api.person()
    for owner in ("1", "2", "1", None):
        await api.computer(owner=owner)
    response = await api.request("DELETE", "/persons/1")
    assert (response.status, response.document) == (204, None)
    assert (await api.get("/persons/1")).status == 404
    assert (await api.get("/persons")).ids == ["2"]
    assert await owners(database) == {1: None, 2: 2, 3: None, 4: None}
    read = await api.get("/computers/1?include=owner")
    assert (linkage_of(read.data), read.included) == ({"owner": {"data": None}}, [])


async def test_the_body_of_a_delete_is_ignored(api: Api) -> None:
    await api.person()
    await api.person()
    response = await api.request("DELETE", "/persons/1", {"data": {"type": "person", "id": "2"}})
    assert response.status == 204
    assert (await api.get("/persons")).ids == ["2"]


async def test_the_id_of_a_deleted_resource_is_not_reused(api: Api) -> None:
    for create, path in ((api.person, "/persons"), (api.computer, "/computers")):
        last = await create()
        assert (await api.request("DELETE", f"{path}/{last}")).status == 204
        assert int(await create()) > int(last), "ids may have gaps, but are never reused"


async def test_one_of_several_concurrent_deletions_succeeds(api: Api) -> None:
    for path, create in (("/persons", api.person), ("/computers", api.computer)):
        number = await create()
        responses = await asyncio.gather(
            *(api.request("DELETE", f"{path}/{number}") for _ in range(10))
        )
        assert sorted(response.status for response in responses) == [204] + [404] * 9


async def test_no_computer_stays_linked_to_a_deleted_person(api: Api, database: Database) -> None:
    """All ways to link to a person race with a deletion that starts before, among or after them."""
    for turn in range(ROUNDS):
        deleted, other = await api.person(), await api.person()
        computers = [
            await api.computer(owner=owner) for owner in (deleted, other, None, None, None)
        ]
        requests = _link_requests(api, deleted, computers)
        position = turn % (len(requests) + 1)
        requests.insert(position, api.request("DELETE", f"/persons/{deleted}"))
        responses = await asyncio.gather(*requests)
        assert responses.pop(position).status == 204
        # 404: the deletion came first.
        assert {response.status for response in responses} <= {200, 201, 204, 404}
        await check_links(database)
        assert deleted not in {str(owner) for owner in (await owners(database)).values()}


def _link_requests(api: Api, person: str, computers: list[str]) -> list[Any]:
    identifier = {"type": "person", "id": person}
    owner = {"owner": {"data": identifier}}
    new = {"type": "computer", "attributes": {"serial": "x"}, "relationships": owner}
    members = to_many(computers[3])
    path = f"/persons/{person}"
    return [
        *(api.post("/computers", new) for _ in range(3)),
        api.patch(f"/computers/{computers[1]}", {"type": "computer", "relationships": owner}),
        api.patch(f"/computers/{computers[2]}/relationships/owner", identifier),
        api.request("POST", f"{path}/relationships/computers", members),
        api.patch(path, {"type": "person", "relationships": {"computers": to_many(computers[4])}}),
    ]


async def test_a_computer_deleted_while_it_moves_is_gone(api: Api, database: Database) -> None:
    persons = [await api.person() for _ in range(3)]
    for _ in range(ROUNDS):
        number = await api.computer(owner=persons[0])
        deletion, *links = await asyncio.gather(
            api.request("DELETE", f"/computers/{number}"),
            *(api.set_computers(person, number) for person in persons),
            api.patch(f"/computers/{number}/relationships/owner", None),
        )
        assert deletion.status == 204
        # 404: the deletion came first.
        assert {response.status for response in links} <= {200, 204, 404}
        assert (await api.get(f"/computers/{number}")).status == 404
        assert await owners(database) == {}


async def test_a_moved_computer_survives_its_former_owner(api: Api, database: Database) -> None:
    for _ in range(ROUNDS):
        old, new = await api.person(), await api.person()
        number = await api.computer(owner=old)
        responses = await asyncio.gather(
            api.set_computers(new, number), api.request("DELETE", f"/persons/{old}")
        )
        assert [response.status for response in responses] == [200, 204]
        assert (await owners(database))[int(number)] == int(new)
