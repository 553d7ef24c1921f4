"""Bulkheads: limits, queues, and what becomes of cancelled callers."""

import asyncio

import pytest

from registry.jsonapi.error_types import Overloaded
from registry.storage.bulkheads import Bulkhead, Slots


async def settle() -> None:
    """Let all tasks run until each waits for something else."""
    for _ in range(10):
        await asyncio.sleep(0)


class Operations:
    """Operations in the slots of a bulkhead, by number, which end when the test says so.

    begun: the numbers of those that have had a slot, in order.
    """

    def __init__(self, limit: int = 1, queue: int = 10, seconds: float = 60.0) -> None:
        self.slots = Bulkhead("heavy_requests", limit, queue, seconds)
        self.begun = list[int]()
        self._may_end = [asyncio.Event() for _ in range(10)]
        self._tasks: list[asyncio.Task[int]] = []

    async def _run_in_slot(self, number: int, client: str | None) -> int:
        async with self.slots.slot(client):
            self.begun.append(number)
            await self._may_end[number].wait()
            return number

    async def start(self, *clients: str | None) -> list[asyncio.Task[int]]:
        """Start one operation for each client; return those."""
        for client in clients:
            run = self._run_in_slot(len(self._tasks), client)
            self._tasks.append(asyncio.create_task(run))
            await settle()
        return self._tasks[-len(clients) :]

    async def end(self, *numbers: int) -> list[int]:
        """End operations, by default all of them; return the numbers of those that have begun."""
        for number in numbers or range(len(self._may_end)):
            self._may_end[number].set()
        await settle()
        return self.begun


class Queue:
    """Operations that want slots, by number. begun: those that have had one, in order."""

    def __init__(self, limit: int, *clients: str | None) -> None:
        self.slots = Slots(limit)
        self.clients = clients
        self.begun = list[int]()
        for number, client in enumerate(clients):
            if self.slots.take(client):
                self.begun.append(number)
            else:
                self.slots.waiting[number] = client

    def end(self, number: int) -> list[int]:
        """End an operation; return the numbers of those that have begun."""
        self.slots.give_back(self.clients[number])
        while started := self.slots.start():
            self.begun.append(started[0])
        return self.begun


def test_operations_beyond_the_limit_wait_in_the_order_of_their_arrival() -> None:
    queue = Queue(2, *[None] * 5)
    assert queue.begun == [0, 1]
    assert [len(queue.end(number)) for number in (1, 0, 2, 3, 4)] == [3, 4, 5, 5, 5]
    assert queue.begun == [0, 1, 2, 3, 4]
    assert queue.slots.free == 2


def test_a_client_gets_a_slot_while_it_has_fewer_than_are_free() -> None:
    queue = Queue(8, "a", "a", "a", "a", "a", "b", "b", "b", "c", "d")
    assert queue.begun == [0, 1, 2, 3, 5, 6, 8, 9]


def test_a_slot_is_passed_on_to_the_first_client_that_may_have_it() -> None:
    queue = Queue(2, "a", "a", "b", "b", "c")
    assert queue.begun == [0, 2]
    assert queue.end(2) == [0, 2, 3]
    assert queue.end(3) == [0, 2, 3, 4]
    assert queue.end(0) == [0, 2, 3, 4, 1]


async def test_a_waiting_caller_continues_when_a_slot_is_free() -> None:
    operations = Operations()
    tasks = await operations.start(None, None)
    assert operations.begun == [0]
    await operations.end()
    assert await asyncio.gather(*tasks) == [0, 1]


async def test_a_client_that_has_its_share_is_told_so() -> None:
    slots = Operations(limit=2, seconds=0.001).slots
    async with slots.slot("a"):
        with pytest.raises(Overloaded) as caught:
            await slots.acquire("a")
        assert str(caught.value).startswith(
            "This address has 1 heavy requests in progress, as many as one may have while 1 of 2 "
        )
        async with slots.slot("b"):
            with pytest.raises(Overloaded, match=r"is reached, and"):
                await slots.acquire("a")


async def test_an_operation_is_refused_at_once_if_the_queue_is_full() -> None:
    operations = Operations(queue=1)
    *_, refused = await operations.start(None, None, None)
    with pytest.raises(Overloaded) as caught:
        await refused
    assert str(caught.value) == (
        "The limit of heavy requests in progress, 1, is reached, and 1 others wait already. "
        "Nothing was changed."
    )
    assert await operations.end() == [0, 1]


async def test_an_operation_is_refused_after_it_has_waited_too_long() -> None:
    operations = Operations(seconds=0.2)
    _, second = await operations.start(None, None)
    with pytest.raises(Overloaded, match=r"has waited for 0\.2 s"):
        await second
    await operations.end()
    await operations.start(None)
    assert operations.begun == [0, 2]


async def test_a_cancelled_caller_leaves_the_queue() -> None:
    operations = Operations(queue=1)
    _, second = await operations.start(None, None)
    second.cancel()
    await settle()
    (third,) = await operations.start(None)
    assert not third.done()
    assert await operations.end() == [0, 2]


async def test_the_slot_of_a_cancelled_caller_is_passed_on() -> None:
    operations = Operations()
    async with operations.slots:
        first, _ = await operations.start(None, None)
    first.cancel()  # it has the slot but has not run yet
    assert await operations.end() == [1]


async def test_a_response_that_has_begun_waits_as_long_as_it_takes() -> None:
    operations = Operations(queue=0, seconds=0.001)
    await operations.start(None)

    async def wait_for_slot() -> None:
        async with operations.slots.slot(is_refusable=False):
            pass

    waiting = asyncio.create_task(wait_for_slot())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    await operations.end()
    await waiting
    await operations.start(None)
    assert operations.begun == [0, 1]
