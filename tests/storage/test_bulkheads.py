"""Bulkheads: limits, queues, and what becomes of cancelled callers."""

from __future__ import annotations

import asyncio

import pytest

from registry.storage.bulkheads import Bulkhead
from registry.storage.errors import BulkheadFull


def bulkhead(limit: int = 1, queue: int = 10, seconds: float = 60.0) -> Bulkhead:
    return Bulkhead("heavy_queries", limit, queue, seconds)


async def settle() -> None:
    """Let all tasks run until each waits for something else."""
    for _ in range(10):
        await asyncio.sleep(0)


class Operations:
    """Operations that end when the test says so."""

    def __init__(self, bulkhead: Bulkhead) -> None:
        self._bulkhead = bulkhead
        self.begun = list[int]()
        self.may_end = [asyncio.Event() for _ in range(10)]

    async def _run_in_slot(self, number: int, client: str | None) -> int:
        async with self._bulkhead.slot(client):
            self.begun.append(number)
            await self.may_end[number].wait()
            return number

    async def start(self, number: int, client: str | None = None) -> asyncio.Task[int]:
        task = asyncio.create_task(self._run_in_slot(number, client))
        await settle()
        return task


async def test_operations_beyond_the_limit_wait_in_the_order_of_their_arrival() -> None:
    operations = Operations(bulkhead(limit=2))
    tasks = [await operations.start(number) for number in range(5)]
    assert operations.begun == [0, 1]
    for number in (1, 0, 2, 3, 4):
        operations.may_end[number].set()
        await settle()
        assert operations.begun == sorted(operations.begun)
    assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]


async def test_a_client_gets_a_slot_while_it_has_fewer_than_are_free() -> None:
    operations = Operations(bulkhead(limit=8))
    clients = ("a", "a", "a", "a", "a", "b", "b", "b", "c", "d")
    tasks = [await operations.start(number, client) for number, client in enumerate(clients)]
    assert operations.begun == [0, 1, 2, 3, 5, 6, 8, 9]

    for may_end in operations.may_end:
        may_end.set()
    assert await asyncio.gather(*tasks) == list(range(10))


async def test_a_slot_is_passed_on_to_the_first_client_that_may_have_it() -> None:
    operations = Operations(bulkhead(limit=2))
    clients = ("a", "a", "b", "b", "c")
    tasks = [await operations.start(number, client) for number, client in enumerate(clients)]
    assert operations.begun == [0, 2]
    operations.may_end[2].set()
    await settle()
    assert operations.begun == [0, 2, 3]
    operations.may_end[3].set()
    await settle()
    assert operations.begun == [0, 2, 3, 4]
    for may_end in operations.may_end:
        may_end.set()
    assert await asyncio.gather(*tasks) == list(range(5))
    tasks = [await operations.start(number, "a") for number in range(2)]
    assert await asyncio.gather(*tasks) == [0, 1]


async def test_a_client_that_has_its_share_is_told_so() -> None:
    slots = bulkhead(limit=2, seconds=0.001)
    async with slots.slot("a"):
        with pytest.raises(BulkheadFull) as caught:
            await slots.acquire("a")
        assert "in progress, 2, is reached for this address, and" in str(caught.value)
        async with slots.slot("b"):
            with pytest.raises(BulkheadFull, match=r"is reached, and"):
                await slots.acquire("a")


async def test_an_operation_is_refused_at_once_if_the_queue_is_full() -> None:
    operations = Operations(bulkhead(limit=1, queue=1))
    tasks = [await operations.start(number) for number in range(3)]
    with pytest.raises(BulkheadFull) as caught:
        await tasks[2]
    assert str(caught.value) == (
        "The limit of heavy queries in progress, 1, is reached, and 1 others wait already."
    )
    operations.may_end[0].set()
    await settle()
    assert operations.begun == [0, 1]
    operations.may_end[1].set()
    await asyncio.gather(*tasks[:2])


async def test_an_operation_is_refused_after_it_has_waited_too_long() -> None:
    operations = Operations(bulkhead(limit=1, seconds=0.2))
    first, second = [await operations.start(number) for number in range(2)]
    with pytest.raises(BulkheadFull, match=r"has waited for 0\.2 s"):
        await second
    operations.may_end[0].set()
    assert await first == 0
    operations.may_end[2].set()
    assert await (await operations.start(2)) == 2


async def test_a_cancelled_caller_leaves_the_queue() -> None:
    operations = Operations(bulkhead(limit=1, queue=1))
    first, second = [await operations.start(number) for number in range(2)]
    second.cancel()
    await settle()
    third = await operations.start(2)
    assert not third.done()
    operations.may_end[0].set()
    operations.may_end[2].set()
    assert [await first, await third] == [0, 2]
    assert operations.begun == [0, 2]


async def test_a_slot_is_passed_on_if_its_caller_is_cancelled_when_it_arrives() -> None:
    slots = bulkhead(limit=1)
    operations = Operations(slots)
    async with slots:
        first, second = [await operations.start(number) for number in range(2)]
    first.cancel()  # it has the slot but has not run yet
    await settle()
    assert operations.begun == [1]
    operations.may_end[1].set()
    assert await second == 1


async def test_a_response_that_has_begun_waits_as_long_as_it_takes() -> None:
    slots = bulkhead(limit=1, queue=0, seconds=0.001)
    operations = Operations(slots)
    first = await operations.start(0)

    async def wait_for_slot() -> None:
        async with slots.acquire_for_stream():
            pass

    waiting = asyncio.create_task(wait_for_slot())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    operations.may_end[0].set()
    await asyncio.gather(first, waiting)
    operations.may_end[1].set()
    assert await (await operations.start(1)) == 1
