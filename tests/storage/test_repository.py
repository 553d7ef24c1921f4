"""What is stored, and which indexes serve it."""

from __future__ import annotations

import pytest

from registry.model.implicit_attributes import AUTHORSHIP
from tests.support import Api, CommandLog, Database


async def test_a_link_is_stored_once_in_the_computer(api: Api, database: Database) -> None:
    await api.person("Grace", "Hopper")
    await api.computer("SN-1", owner="1")
    unknown = dict.fromkeys(["owner_changed", *AUTHORSHIP], False)
    assert await database.persons.find_one({}, unknown) == {
        "_id": 1,
        "first_name": "Grace",
        "last_name": "Hopper",
        "email": None,
        "password": None,
        "full_name": "Grace Hopper",
        "version": 2,
    }
    assert await database.computers.find_one({}, unknown) == {
        "_id": 1,
        "serial": "SN-1",
        "person": 1,
        "owner_period": 1,
        "version": 1,
    }
    assert await database.counters.distinct("_id") == ["assignment", "computer", "person"]


async def test_an_id_taken_by_an_external_writer_is_skipped(api: Api, database: Database) -> None:
    names = {"first_name": "A", "last_name": "B"}
    await database.persons.insert_many({"_id": number, **names} for number in (1, 2, 3))
    assert await api.person() == "4"
    await database.persons.insert_one({"_id": 5, **names})
    await database.computers.insert_one({"_id": 1, "serial": "SN-1"})
    assert await api.computer(owner="4") == "2"
    person = {"type": "person", "attributes": {"first_name": "Ada", "last_name": "Lovelace"}}
    (result,) = (await api.operate({"op": "add", "data": person})).results
    assert result["data"]["id"] == "6"


@pytest.mark.parametrize(
    ("path", "recomputes"),
    [
        ("/persons?sort=full_name", True),
        ("/persons?sort=email,-full_name", True),
        ("/persons?filter[full_name]=Grace Hopper", True),
        ('/persons?filter=[{"or":[{"not":{"name":"full_name","op":"eq","val":""}}]}]', True),
        ('/persons?filter=[{"and":[{"name":"full_name","op":"ne","val":""}]}]', True),
        ("/computers?sort=owner.full_name", True),
        ("/persons/1/computers?sort=-owner.full_name", True),
        ("/persons", False),
        ("/persons?sort=-id", False),
        ("/persons?sort=last_name,first_name&filter[email]=null", False),
        ('/persons?filter=[{"or":[{"not":{"name":"last_name","op":"eq","val":""}}]}]', False),
        ("/computers?sort=owner.last_name&filter[serial][gt]=A", False),
    ],
)
async def test_only_queries_by_computed_attributes_store_missing_ones(
    api: Api, database: Database, commands: CommandLog, path: str, recomputes: bool
) -> None:
    await api.computer(owner=await api.person("Ada", "Lovelace"))
    await database.persons.insert_one({"_id": 9, "first_name": "Grace", "last_name": "Hopper"})
    await database.computers.insert_one({"_id": 9, "serial": "SN-9", "person": 9})
    commands.take("all")
    assert (await api.get(path)).status == 200
    assert commands.take("update") == ["persons"] * recomputes
    person = await database.persons.find_one({"_id": 9})
    assert person is not None
    assert person.get("full_name") == ("Grace Hopper" if recomputes else None)
