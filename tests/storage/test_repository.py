"""What is stored and computed, and under which ids: none is used twice."""

import asyncio

from registry.model.implicit_attributes import AUTHORSHIP
from tests.conftest import Serve
from tests.support import PERSON, Api, Database, add, complete_record


async def test_a_link_is_stored_in_the_computer_and_counted(api: Api, database: Database) -> None:
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
        "_computers_count": 1,
        "_assignments_count": 1,
    }
    assert await database.computers.find_one({}, unknown) == {
        "_id": 1,
        "serial": "SN-1",
        "person": 1,
        "owner_period": 1,
        "version": 1,
        "_assignments_count": 1,
    }
    assert await database.counters.distinct("_id") == ["assignment", "computer", "person"]


NAMES = {"first_name": "Ada", "last_name": "Lovelace"}


async def create(api: Api, count: int) -> list[int]:
    """Create persons in one request; return their ids."""
    return [
        int(result["data"]["id"]) for result in (await api.operate(*[add(PERSON)] * count)).results
    ]


async def test_the_first_id_follows_the_greatest_stored_one(
    serve: Serve, database: Database
) -> None:
    """For example after a restore without the counters."""
    await database.persons.insert_many(complete_record({"_id": id_, **NAMES}) for id_ in (7, 3))
    assert await create(await serve(), 2) == [8, 9]


async def test_ids_follow_the_order_of_the_commits_without_gaps(api: Api) -> None:
    ids = [id_ for _ in range(10) for id_ in await create(api, 5)]
    failing = [add(PERSON), {"op": "remove", "ref": {"type": "person", "id": "99"}}]
    responses = await asyncio.gather(
        *(api.operate(*failing) if number % 3 else api.operate(add(PERSON)) for number in range(30))
    )
    assert [response.status for response in responses].count(404) == 20
    ids += sorted(
        int(response.results[0]["data"]["id"]) for response in responses if response.status == 200
    )
    assert ids == list(range(1, 61))
    await api.operate(add(PERSON), Prefer="tx=rollback")
    assert await create(api, 1) == [61]


async def test_concurrent_processes_and_requests_get_different_ids(serve: Serve) -> None:
    processes = [await serve() for _ in range(2)]
    counts = [1, 30, 2, 300, 7] * 6
    created = await asyncio.gather(
        *(create(processes[index % 2], count) for index, count in enumerate(counts))
    )
    assert [len(ids) for ids in created] == counts
    assert all(ids == sorted(ids) for ids in created)
    assert sorted(id_ for ids in created for id_ in ids) == list(range(1, sum(counts) + 1))


async def test_the_id_of_a_deleted_resource_is_not_used_again(serve: Serve) -> None:
    first, other = await serve(), await serve()
    used = [*await create(first, 1), *await create(other, 1)]
    assert (await other.request("DELETE", f"/persons/{used[1]}")).status == 204
    await first.client.close()
    for api in (await serve(), other):
        used += await create(api, 100)
    assert used == list(range(1, 203))
