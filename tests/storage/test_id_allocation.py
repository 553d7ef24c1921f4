"""Allocation of integer ids."""

from __future__ import annotations

from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.resources.person import person
from registry.storage.writes.id_allocation import Counters
from tests.conftest import Serve
from tests.support import Database

GRAPH = Graph(RESOURCES)


async def test_a_counter_starts_at_the_greatest_stored_id(database: Database) -> None:
    """For example after a restore without the counters."""
    await database.persons.insert_many([{"_id": 7}, {"_id": "text"}, {"_id": 3}])
    counters = Counters(database, GRAPH)
    await counters.prepare()
    assert list(await counters.allocate(person, 2)) == [8, 9]


async def test_preparing_again_does_not_decrease_a_counter(database: Database) -> None:
    counters = Counters(database, GRAPH)
    await counters.prepare()
    assert list(await counters.allocate(person, 2)) == [1, 2]
    await counters.prepare()
    assert list(await counters.allocate(person, 1)) == [3]


async def test_an_id_is_not_reused_after_its_resource_is_deleted(
    serve: Serve, database: Database
) -> None:
    first = await serve()
    assert await first.person() == "1"
    await database.persons.delete_one({"_id": 1})
    second = await serve()
    assert await second.person() == "2"
