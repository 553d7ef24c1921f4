"""Atomic operations: how many commands they take, and what each one sees."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import MEDIA_TYPE, Api, CommandLog, Database

HEADERS = {"Content-Type": f'{MEDIA_TYPE}; ext="https://jsonapi.org/ext/atomic"'}


async def execute(api: Api, *operations: dict[str, Any]) -> list[Any]:
    body = {"atomic:operations": operations}
    async with api.client.post("/operations", json=body, headers=HEADERS) as response:
        document = await response.json(content_type=None)
        assert response.status == 200, document
        results: list[Any] = document["atomic:results"]
        return results


def add_pair(number: int) -> list[dict[str, Any]]:
    """Return the operations that add a person and a computer of this person."""
    local_id = f"p{number}"
    person = {"first_name": "Ada", "last_name": f"L{number}"}
    owner = {"data": {"type": "person", "lid": local_id}}
    return [
        {"op": "add", "data": {"type": "person", "lid": local_id, "attributes": person}},
        {
            "op": "add",
            "data": {
                "type": "computer",
                "attributes": {"serial": f"SN-{number}"},
                "relationships": {"owner": owner},
            },
        },
    ]


@pytest.mark.parametrize("pairs", [1, 20])
async def test_the_number_of_commands_does_not_depend_on_that_of_operations(
    api: Api, commands: CommandLog, pairs: int
) -> None:
    operations = [operation for number in range(pairs) for operation in add_pair(number)]
    commands.take("all")
    results = await execute(api, *operations)
    names = commands.names()
    assert set(names) - {"findAndModify"} == {"commitTransaction", "find", "insert"}
    # Inserts once per type: the links of new persons change before they are written.
    assert len([name for name in names if name != "findAndModify"]) == 4
    assert names.count("findAndModify") <= 4, "ids are allocated in blocks"
    assert [one["data"]["id"] for one in results] == [
        str(number) for number in range(1, pairs + 1) for _ in ("person", "computer")
    ]


async def test_operations_around_a_deletion_see_each_other(api: Api, database: Database) -> None:
    reference = {"type": "person", "id": "1"}
    await execute(
        api,
        *add_pair(1),
        {"op": "update", "data": {**reference, "attributes": {"first_name": "Grace"}}},
        {"op": "remove", "ref": reference},
        {"op": "update", "data": {"type": "computer", "id": "1", "attributes": {"serial": "new"}}},
    )
    assert await database.persons.count_documents({}) == 0
    computer = await database.computers.find_one()
    assert computer is not None
    assert (computer["serial"], computer["person"], computer["version"]) == ("new", None, 3)
