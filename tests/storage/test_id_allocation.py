"""Ids: no two resources get the same one, whichever process creates them."""

from __future__ import annotations

import asyncio

from tests.conftest import Serve
from tests.support import Api, CommandLog, Database

NAMES = {"first_name": "Ada", "last_name": "Lovelace"}


async def create(api: Api, count: int) -> list[int]:
    """Create persons in one request; return their ids."""
    add = {"op": "add", "data": {"type": "person", "attributes": NAMES}}
    return [int(one["data"]["id"]) for one in (await api.operate(*[add] * count)).results]


async def test_the_first_id_follows_the_greatest_stored_one(
    serve: Serve, database: Database
) -> None:
    """For example after a restore without the counters."""
    await database.persons.insert_many({"_id": id_, **NAMES} for id_ in (7, 3))
    assert await create(await serve(), 2) == [8, 9]


async def test_ids_are_allocated_in_growing_blocks(api: Api, commands: CommandLog) -> None:
    commands.take("all")
    ids = [id_ for _ in range(100) for id_ in await create(api, 5)]
    assert ids == list(range(1, 501))
    assert len(commands.take("findAndModify")) <= 8


async def test_concurrent_processes_and_requests_get_different_ids(serve: Serve) -> None:
    processes = [await serve() for _ in range(2)]
    counts = [1, 30, 2, 300, 7] * 6
    created = await asyncio.gather(
        *(create(processes[index % 2], count) for index, count in enumerate(counts))
    )
    assert [len(ids) for ids in created] == counts
    assert all(ids == sorted(ids) for ids in created)
    assert len({id_ for ids in created for id_ in ids}) == sum(counts)


async def test_unused_ids_are_given_back_on_a_clean_stop(serve: Serve) -> None:
    first = await serve()
    for count in (1, 5, 20):  # so that several blocks are unused
        await create(first, count)
    await first.client.close()
    assert await create(await serve(), 1) == [27]


async def test_ids_are_not_given_back_if_another_process_has_newer_ones(serve: Serve) -> None:
    first, other = await serve(), await serve()
    used = [*await create(first, 1), *await create(other, 1)]
    # Of a resource that exists, no id could be used again anyway.
    assert (await other.request("DELETE", f"/persons/{used[1]}")).status == 204
    await first.client.close()
    used += await create(await serve(), 100)
    assert len(set(used)) == 102
    used += await create(other, 100)
    assert len(set(used)) == 202
