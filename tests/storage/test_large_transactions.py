"""What one transaction takes is bounded."""

import asyncio

import pytest

from registry.jsonapi.error_types import TooManyRelated, Unavailable
from tests.storage.writing import Registry, insert_fleet
from tests.support import Api, CommandLog, Database
from tests.waiting import eventually

COMPUTERS, PART = 5_001, 1_000
"""Computers of person 1, more than a group unlinks, and those that one transaction unlinks."""

TOO_MANY = 20_001
"""More than a request unlinks that is not possible in parts."""


@pytest.fixture
async def registry(api: Api, database: Database) -> Registry:
    await insert_fleet(database, 3, COMPUTERS, owner=1)
    return Registry(api)


@pytest.mark.slow
async def test_a_change_that_unlinks_too_many_resources_is_refused_and_possible_in_parts(
    api: Api, database: Database
) -> None:
    await insert_fleet(database, 2, TOO_MANY, owner=1)
    registry = Registry(api)
    conditional = registry.delete(("person", 1))
    conditional.versions = frozenset({1})
    for write in (conditional, registry.update(("person", 1), computers=[1])):
        with pytest.raises(TooManyRelated):
            await registry.write(write)
    assert await database.computers.count_documents({"person": 1}) == TOO_MANY
    await registry.write(registry.update(("person", 2), computers=[1, 2, 3]))
    await registry.write(registry.update(("person", 1), computers=[4]))
    assert await database.computers.count_documents({"person": 1}) == 1


# The group that does not take a second part is committed without it.
@pytest.mark.parametrize(("owned", "commits"), [(COMPUTERS, 6), (PART + 1, 1 + 2), (PART, 1)])
async def test_a_deletion_unlinks_many_resources_in_parts(
    registry: Registry, database: Database, commands: CommandLog, owned: int, commits: int
) -> None:
    await database.computers.update_many({"_id": {"$gt": owned}}, {"$set": {"person": 2}})
    commands.take("all")
    await registry.write(registry.delete(("person", 1)))
    assert commands.names().count("commitTransaction") == commits
    assert await database.computers.count_documents({"person": None}) == owned
    assert await database.computers.count_documents({"person": 2}) == COMPUTERS - owned
    assert await database.persons.distinct("_id") == [2, 3]
    counter = await database.counters.find_one({"_id": "person"})
    assert counter is not None
    assert (counter["count"], counter["deleted"]) == (2, {"0": 1})


async def test_the_key_of_a_deletion_in_parts_is_stored_with_the_last_one(
    registry: Registry, database: Database
) -> None:
    for _ in range(2):
        async with asyncio.timeout(60):
            await registry.write(registry.delete(("person", 1)), key="a")
        assert await database.computers.count_documents({"person": None}) == COMPUTERS
        assert await database.persons.distinct("_id") == [2, 3]


async def test_a_dry_run_of_a_deletion_has_one_part(registry: Registry, database: Database) -> None:
    async with asyncio.timeout(60):
        await registry.repository.write([registry.delete(("person", 1))], rolls_back=True)
    assert await database.computers.count_documents({"person": 1}) == COMPUTERS
    assert await database.persons.distinct("_id") == [1, 2, 3]


async def test_others_write_between_the_parts_of_a_deletion(registry: Registry) -> None:
    deletion = asyncio.create_task(registry.write(registry.delete(("person", 1))))
    await asyncio.sleep(0)
    await registry.write(registry.update(("person", 3), last_name="New"))
    await registry.write(registry.update(("person", 3), last_name="Newer"))
    assert not deletion.done()
    await deletion


async def test_a_deletion_in_parts_is_completed_when_its_client_leaves(
    registry: Registry, database: Database
) -> None:
    deletion = asyncio.create_task(registry.write(registry.delete(("person", 1))))
    while not await database.computers.count_documents({"person": None}):
        assert not deletion.done()
    deletion.cancel()

    async def is_deleted() -> bool:
        return not await database.persons.count_documents({"_id": 1})

    assert await eventually(is_deleted)
    assert await database.computers.count_documents({"person": None}) == COMPUTERS


async def test_a_deletion_in_parts_ends_with_the_service_and_can_be_repeated(
    registry: Registry, database: Database
) -> None:
    deletion = asyncio.create_task(registry.write(registry.delete(("person", 1))))
    await asyncio.sleep(0)
    await registry.repository._group_commit.close()
    with pytest.raises(Unavailable):
        await deletion
    assert 0 < await database.computers.count_documents({"person": None}) < COMPUTERS
    assert await database.persons.count_documents({"_id": 1}) == 1
