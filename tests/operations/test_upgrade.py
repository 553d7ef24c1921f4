"""The upgrade of data of earlier formats, at the start of a service."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest

from registry.model.graph import Graph
from registry.operations import upgrade
from registry.operations.consistency import check
from registry.operations.upgrade import FORMAT, require_current
from registry.program import StartError
from registry.resources import RESOURCES
from tests.conftest import Serve
from tests.support import Api, Database, new

pytestmark = pytest.mark.usefixtures("_new_database")

GRAPH = Graph(RESOURCES)

FORMAT_1: dict[str, list[dict[str, Any]]] = {
    "persons": [
        {"_id": 1, "first_name": "Ada", "last_name": "Lovelace", "email": None, "text_block": 7},
        {"_id": 2, "first_name": "Grace", "last_name": "Hopper", "full_name": None, "version": 3},
        {"_id": 4, "first_name": "A", "last_name": "T", "full_name": "A T", "version": 1},
    ],
    "computers": [
        {"_id": 1, "serial": "SN-1", "person": 1, "owner_period": None, "text_block": None},
        {"_id": 2, "serial": "SN-2", "person": 2, "owner_period": 1, "version": 2, "text_block": 0},
        {"_id": 3, "serial": "SN-3", "person": None, "version": 1},
    ],
    "assignments": [
        {
            "_id": 1,
            "since": datetime(2026, 3, 15, tzinfo=UTC),
            "until": datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
            "computer": 2,
            "owner": 2,
        }
    ],
    "persons.text_blocks": [{"_id": 7, "full_name": "ada lovelace"}],
    "services": [{"_id": "a", "digest": "b", "until": datetime(2026, 3, 15, tzinfo=UTC)}],
    "counters": [
        {"_id": "person", "seq": 5, "declared": {"x": ["Text", True]}, "hidden": ["x"]},
        {"_id": "computer", "seq": 3},
        {"_id": "assignment", "seq": 1},
    ],
}
"""Data of the last version without a number for the format, which had not completed them yet."""


async def store_format_1(database: Database) -> None:
    for name, documents in FORMAT_1.items():
        await database[name].insert_many(documents)
    version, date = {"bsonType": ["int", "long", "null"]}, {"bsonType": ["date"]}
    for name, properties in (
        ("persons", {"version": version}),
        ("computers", {"version": version}),
        ("assignments", {"version": version, "since": date, "until": date}),
    ):
        await database[name].create_index([("text_block", 1), ("_id", 1)])
        validator = {"$jsonSchema": {"bsonType": "object", "properties": properties}}
        await database.command("collMod", name, validator=validator, validationLevel="moderate")


async def stored_format(database: Database) -> Any:
    document = await database.registry.find_one({"_id": "format"})
    return document and document["version"]


async def test_data_of_the_first_format_are_upgraded(
    serve: Serve, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry")
    await store_format_1(database)
    api = await serve()
    assert f"Upgrading the data from format 1 to {FORMAT}" in caplog.text
    assert await stored_format(database) == FORMAT
    names = await database.list_collection_names()
    assert not {"services", "persons.text_blocks"} & set(names)
    for name in ("persons", "computers"):
        assert "text_block_1__id_1" not in await database[name].index_information()
        assert await database[name].count_documents({"text_block": {"$exists": True}}) == 0
        assert await database[name].count_documents({"version": None}) == 0
    assert (await api.get("/persons?filter[full_name]=Ada Lovelace,Grace Hopper")).ids == ["1", "2"]
    response = await api.get("/computers/1/assignments?include=owner")
    assert response.data[0]["attributes"]["since"] is None
    assert response.included == [("person", "1")]
    assert (await api.patch("/persons/1", new("person", email="ada@example.com"))).status == 200
    await api.set_computers("2", "1", "2", "3")
    assert await api.person() == "6"
    assert (await check(database, GRAPH)).total == 0


async def test_data_of_the_second_format_get_counts(
    api: Api, serve: Serve, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    ada = await api.person()
    for _ in range(2):
        await api.computer(owner=ada)
    await api.client.close()
    before = [await database[name].find().to_list(None) for name in ("persons", "computers")]
    counts = ("_computers_count", "_assignments_count")
    for name in ("persons", "computers"):
        await database[name].update_many({}, {"$unset": dict.fromkeys(counts, "")})
        (found,) = await (await database.list_collections(filter={"name": name})).to_list(None)
        validator = found["options"]["validator"]
        for field in counts:
            validator["$jsonSchema"]["properties"].pop(field, None)
        await database.command("collMod", name, validator=validator)
    await database.registry.update_one({}, {"$set": {"version": 2}})
    caplog.set_level(logging.INFO, "registry")
    api = await serve()
    assert f"Upgrading the data from format 2 to {FORMAT}" in caplog.text
    assert "Counting the computers of persons" in caplog.text
    after = [await database[name].find().to_list(None) for name in ("persons", "computers")]
    assert after == before
    await api.client.close()
    caplog.clear()
    await serve()
    assert "Counting" not in caplog.text


async def test_an_interrupted_upgrade_is_continued(
    serve: Serve, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store_format_1(database)

    async def interrupted(*_: object, **__: object) -> None:
        raise StartError("interrupted")

    with monkeypatch.context() as patch:
        patch.setattr(upgrade, "_store", interrupted)
        with pytest.raises(StartError, match="interrupted"):
            await serve()
    assert await stored_format(database) == 1
    with pytest.raises(StartError, match="the data have format 1: start the service"):
        await require_current(database)
    await serve()
    periods = await database.assignments.find().sort("_id").to_list(None)
    assert [(period["_id"], period["computer"]) for period in periods] == [(1, 2), (2, 1)]
    assert periods[1]["since"] is None
    assert [period["until"] for period in periods] == [None, None]
    assert (await check(database, GRAPH)).total == 0


async def test_links_to_nothing_are_removed_and_their_periods_end(
    serve: Serve, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await store_format_1(database)
    await database.persons.delete_one({"_id": 2})
    await database.computers.insert_one({"_id": 4, "serial": "SN-4", "person": 99, "version": 1})
    api = await serve()
    warning = "2 of computers had as owner a person that does not exist, and have none now"
    assert warning in caplog.text
    for sort in ("owner.last_name", "id"):
        response = await api.get(f"/computers?sort={sort}")
        assert (sorted(response.ids), response.document["meta"]["count"]) == (
            ["1", "2", "3", "4"],
            4,
        )
    for id_ in ("2", "4"):
        assert (await api.get(f"/computers/{id_}?include=owner")).included == []
        (period,) = (await api.get(f"/computers/{id_}/assignments")).data
        assert period["attributes"]["until"] is not None
    response = await api.get("/computers/1?include=owner")
    assert response.included == [("person", "1")]
    assert (await check(database, GRAPH)).total == 0


async def test_counters_of_the_new_form_keep_their_last_id(
    serve: Serve, database: Database
) -> None:
    await store_format_1(database)
    fields = {"last": 9, "count": 3, "deleted": {"0": 6}}
    await database.counters.replace_one({"_id": "person"}, fields)
    await database.counters.insert_one({"_id": "another", "last": 7, "count": 7, "deleted": {}})
    api = await serve()
    assert await api.person() == "10"
    another = await database.counters.find_one({"_id": "another"})
    assert another == {"_id": "another", "last": 7}


async def test_of_two_upgrades_one_stores_the_counters(database: Database) -> None:
    await store_format_1(database)
    await upgrade.upgrade(database, GRAPH)
    before = await database.counters.find_one({"_id": "person"})
    counters = [{"_id": "person", "last": 0}]
    await upgrade._store(None, database=database, counters=counters)  # type: ignore[arg-type]
    counter = await database.counters.find_one({"_id": "person"})
    assert counter == before != counters[0]


async def test_a_new_database_has_the_format_of_its_service(
    serve: Serve, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry")
    await require_current(database)
    await serve()
    assert await stored_format(database) == FORMAT
    assert "Upgrading" not in caplog.text


async def test_data_of_a_later_format_are_refused(
    api: Api, serve: Serve, database: Database
) -> None:
    await api.client.close()
    await database.registry.update_one({}, {"$set": {"version": FORMAT + 1}})
    reason = f"the data have format {FORMAT + 1}, of a later version of the service than this one"
    with pytest.raises(StartError, match=reason):
        await serve()
    with pytest.raises(StartError, match=reason):
        await require_current(database)
