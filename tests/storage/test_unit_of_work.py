"""What a write changes and how many commands it takes, with and without others."""

from typing import Any

import pytest

from registry.jsonapi.changes import Verb
from tests.storage.writing import MISSING, Registry, insert_fleet, locked, records
from tests.support import PERSON, Api, CommandLog, Database, Response, add, new

PERSONS, COMPUTERS = 5, 9

NAMES = {"first_name": "Ada", "last_name": "King"}


@pytest.fixture
async def registry(api: Api, database: Database) -> Registry:
    await insert_fleet(database, PERSONS, COMPUTERS)
    return Registry(api)


async def patch(api: Api, id_: str, **attributes: Any) -> Response:
    return await api.patch(f"/persons/{id_}", new("person", **attributes))


async def test_text_that_looks_like_an_expression_is_stored_as_it_is(api: Api) -> None:
    id_ = await api.person()
    response = await patch(api, id_, first_name="$$ROOT", last_name="$first_name")
    assert response.data["attributes"]["full_name"] == "$$ROOT $first_name"
    assert (await api.get("/persons?filter[last_name]=$first_name")).ids == [id_]


async def versions_after(
    registry: Registry, database: Database, *requests: Any
) -> dict[tuple[str, int], int]:
    """Apply writes one by one; return by how much the versions of records have changed."""
    before = await records(database)
    for write in requests:
        await registry.write(write)
    after = await records(database)
    return {
        place: after[place]["version"] - before[place]["version"]
        for place in after
        if after[place] != before[place]
    }


@pytest.mark.budget
async def test_a_single_write_takes_as_few_commands_as_possible(
    api: Api, commands: CommandLog
) -> None:
    commands.take("all")
    id_ = await api.person("Grace", "Hopper")
    assert commands.names() == ["find", "update", "insert", "commitTransaction"]
    await api.person("Ada", "Lovelace")
    sent = commands.names()
    assert sent == ["update", "insert", "commitTransaction"], "the last id is known"
    changed = await patch(api, id_, last_name="Murray")
    assert commands.names() == ["find", "update", "commitTransaction"]
    same = await patch(api, id_, first_name="Grace", last_name="Murray")
    assert commands.names() == ["find", "commitTransaction"]
    assert same.document == changed.document
    assert same.headers["ETag"] == changed.headers["ETag"]
    await api.request("DELETE", f"/persons/{id_}")
    assert commands.names() == ["find", "find", "update", "delete", "commitTransaction"]


async def test_a_write_that_changes_nothing_writes_nothing(
    registry: Registry, database: Database, commands: CommandLog
) -> None:
    await registry.write(registry.update(("person", 1), computers=[1, 2]))
    commands.take("all")
    assert not await versions_after(
        registry,
        database,
        registry.update(("person", 1), computers=[2, 1, 2]),
        registry.update(("person", 1), computers=[1], verb=Verb.ADD),
        registry.update(("person", 1), computers=[3, MISSING], verb=Verb.REMOVE),
        registry.update(("computer", 1), owner=1, serial="x"),
        registry.update(("computer", 3), owner=None),
    )
    assert set(commands.names()) == {"find", "commitTransaction"}


async def test_a_record_that_is_only_read_is_not_written(
    registry: Registry, database: Database
) -> None:
    await registry.write(registry.update(("computer", 1), owner=1))
    rename = registry.update(("computer", 1), owner=1, serial="SN-1")
    async with locked(database, ("person", 1)):
        assert (await registry.write(rename))[0].record["serial"] == "SN-1"
    assert (await records(database))["computer", 1]["version"] == 3


def add_pair(number: int) -> list[dict[str, Any]]:
    """Return the operations that add a person and a computer of this person."""
    owner = {"owner": {"data": {"type": "person", "lid": f"p{number}"}}}
    return [add(PERSON, f"p{number}"), add(new("computer", owner, serial=f"SN-{number}"))]


@pytest.mark.budget
@pytest.mark.parametrize("pairs", [1, 20])
async def test_more_operations_take_no_more_commands(
    api: Api, commands: CommandLog, pairs: int
) -> None:
    operations = [operation for number in range(pairs) for operation in add_pair(number)]
    commands.take("all")
    results = (await api.operate(*operations)).results
    names = commands.names()
    # Once per type: the links of new persons change before they are written.
    assert names == ["find", "update", *["insert"] * 3, "commitTransaction"]
    assert [result["data"]["id"] for result in results] == [
        str(number) for number in range(1, pairs + 1) for _ in ("person", "computer")
    ]


async def test_a_repeated_request_shows_the_stored_ids_alone(
    registry: Registry,
) -> None:
    owner = 5
    writes = [
        registry.create("computer", -owner, serial="x", owner=[owner]),
        registry.delete(("person", 2)),
    ]
    results = await registry.write(*writes, key="once")
    repeated = await registry.write(*writes, key="once")
    assert repeated[0].is_replayed
    for created, deleted in (results, repeated):
        assert created.record["_id"] == COMPUTERS + 1
        assert [linkage.ids for linkage in created.write.change.linkages] == [[owner]]
        assert deleted.write.target.id == 2
