"""What one transaction takes is bounded."""

import pytest

from registry.jsonapi.changes import Verb, Write
from registry.jsonapi.error_types import TooManyRelated
from registry.storage.writes import unit_of_work
from tests.storage.writing import Registry, insert_fleet
from tests.support import Api, Database

COMPUTERS = 1_001
"""Computers of person 1, more than a group unlinks."""

TOO_MANY = 20_002
"""More than a request unlinks that keeps one of them."""


@pytest.fixture
async def registry(api: Api, database: Database) -> Registry:
    await insert_fleet(database, 3, COMPUTERS, owner=1)
    return Registry(api)


@pytest.mark.slow
async def test_a_change_that_unlinks_too_many_is_refused_until_members_are_removed(
    api: Api, database: Database
) -> None:
    await insert_fleet(database, 2, TOO_MANY, owner=1)
    registry = Registry(api)
    deletion = registry.delete(("person", 1))
    for write in (deletion, registry.update(("person", 1), computers=[1])):
        with pytest.raises(TooManyRelated):
            await registry.write(write)
    assert await database.computers.count_documents({"person": 1}) == TOO_MANY
    removed = range(1, 16_001)
    await registry.write(registry.update(("person", 1), computers=removed, verb=Verb.REMOVE))
    await registry.write(registry.update(("person", 1), computers=[TOO_MANY]))
    assert await database.computers.count_documents({"person": 1}) == 1
    await registry.write(deletion)
    assert await database.persons.distinct("_id") == [2]


async def test_a_change_may_unlink_as_many_as_the_limit_says(
    registry: Registry, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_MAX_MEMBERS", "_MAX_MEMBERS_OF_LARGE"):
        monkeypatch.setattr(unit_of_work, limit, COMPUTERS - 1)
    unlinking = registry.update(("person", 1), computers=[])
    with pytest.raises(TooManyRelated):
        await registry.write(unlinking)
    monkeypatch.setattr(unit_of_work, "_MAX_MEMBERS_OF_LARGE", COMPUTERS)
    await registry.write(unlinking)
    assert await database.computers.count_documents({"person": None}) == COMPUTERS


async def unlink_beside_others(registry: Registry, database: Database, write: Write) -> None:
    """Check that a write that unlinks all computers comes after the others of its group."""
    other = registry.update(("person", 3), last_name="New")
    unlinked, updated = await registry.write_group([[write], [other]])
    assert isinstance(unlinked, list)
    assert isinstance(updated, list)
    assert updated[0].time is not None
    assert unlinked[0].time is not None
    assert updated[0].time < unlinked[0].time
    assert await database.computers.count_documents({"person": None}) == COMPUTERS


async def test_a_linkage_that_unlinks_many_resources_delays_no_group(
    registry: Registry, database: Database
) -> None:
    await unlink_beside_others(registry, database, registry.update(("person", 1), computers=[]))


async def test_a_deletion_that_unlinks_many_resources_delays_no_group(
    registry: Registry, database: Database
) -> None:
    await unlink_beside_others(registry, database, registry.delete(("person", 1)))
    assert await database.persons.distinct("_id") == [2, 3]
    counter = await database.counters.find_one({"_id": "person"})
    assert counter is not None
    assert (counter["count"], counter["deleted"]) == (2, {"0": 1})
