"""DELETE: JSON:API 1.0, Deleting Resources."""

from __future__ import annotations

from typing import Any

from tests.support import Api, Database, linkage_of, to_many


async def owners(database: Database) -> dict[int, Any]:
    """Return the stored owner of each computer by id."""
    return {
        record["_id"]: record["person"] async for record in database.computers.find().sort("_id")
    }


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
