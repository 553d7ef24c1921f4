"""Allocation of integer ids."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from registry.jsonapi.changes import NEW, Verb, Write
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.resources.person import person
from registry.storage.writes.id_allocation import Counters
from tests.support import CommandLog, Database

GRAPH = Graph(RESOURCES)


@pytest.fixture
async def counters(database: Database) -> Counters:
    counters = Counters(database, GRAPH)
    await counters.prepare()
    return counters


async def allocate(counters: Counters, count: int) -> list[int]:
    """Return the ids for new persons, in the order of their placeholders."""
    targets = [replace(NEW, id=-number) for number in range(1, count + 1)]
    ids = await counters.assign([Write(Verb.ADD, person, target) for target in targets])
    assert list(ids) == [target.id for target in targets]
    return list(ids.values())


async def last_allocated(database: Database) -> int:
    counter = await database.counters.find_one({"_id": "person"})
    assert counter is not None
    last: int = counter["seq"]
    return last


async def test_a_counter_starts_at_the_greatest_stored_id(database: Database) -> None:
    """For example after a restore without the counters."""
    await database.persons.insert_many([{"_id": 7}, {"_id": "text"}, {"_id": 3}])
    counters = Counters(database, GRAPH)
    await counters.prepare()
    assert await allocate(counters, 2) == [8, 9]


async def test_preparing_again_does_not_decrease_a_counter(
    counters: Counters, database: Database
) -> None:
    assert await allocate(counters, 2) == [1, 2]
    last = await last_allocated(database)
    await counters.prepare()
    assert await last_allocated(database) == last
    assert await allocate(counters, 1) == [3]


async def test_ids_are_allocated_in_growing_blocks(
    counters: Counters, commands: CommandLog
) -> None:
    commands.take("all")
    ids = [id_ for _ in range(500) for id_ in await allocate(counters, 1)]
    assert ids == list(range(1, 501))
    assert len(commands.take("findAndModify")) <= 8


async def test_concurrent_processes_and_requests_get_different_ids(database: Database) -> None:
    processes = [Counters(database, GRAPH) for _ in range(2)]
    counts = [1, 30, 2, 300, 7] * 6
    allocated = await asyncio.gather(
        *(allocate(processes[index % 2], count) for index, count in enumerate(counts))
    )
    assert [len(ids) for ids in allocated] == counts
    assert all(ids == sorted(ids) for ids in allocated)
    assert len({id_ for ids in allocated for id_ in ids}) == sum(counts)


async def test_unused_ids_are_given_back_on_a_clean_stop(
    counters: Counters, database: Database
) -> None:
    for count in (1, 5, 20):  # so that several blocks are unused
        await allocate(counters, count)
    await counters.close()
    assert await last_allocated(database) == 26
    assert await allocate(Counters(database, GRAPH), 1) == [27]


async def test_ids_are_not_given_back_if_another_process_has_newer_ones(
    counters: Counters, database: Database
) -> None:
    other = Counters(database, GRAPH)
    used = [*await allocate(counters, 1), *await allocate(other, 1)]
    await counters.close()
    used += await allocate(Counters(database, GRAPH), 100)
    assert len(set(used)) == 102
    used += await allocate(other, 100)
    assert len(set(used)) == 202
