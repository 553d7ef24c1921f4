"""Concurrent callers share a round trip, and none of them is affected by another."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from registry.capacity import BatchLimits
from registry.http.app_keys import GRAPH, REPOSITORY
from registry.jsonapi.error_types import QueryTimeout
from registry.jsonapi.pagination import Key, NumberedPage, Window
from registry.jsonapi.query import Query
from registry.storage import Listing
from registry.storage.mongo.batching import Batcher, Coalescer
from tests.support import Api, CommandLog


class HeldBatches:
    """A batch function that records its batches, and returns when `released` is set."""

    def __init__(self) -> None:
        self.loaded: list[list[int]] = []
        self.released = asyncio.Event()
        self.failure: Exception | None = None

    async def load(self, keys: Sequence[int]) -> list[int | Exception]:
        self.loaded.append(list(keys))
        await self.released.wait()
        if self.failure:
            raise self.failure
        return [ValueError(key) if key < 0 else key * 10 for key in keys]


def held(*limits: int, **options: Any) -> tuple[HeldBatches, Batcher[int, int]]:
    """Return a batcher with these limits, and its batches."""
    batches = HeldBatches()
    return batches, Batcher(batches.load, name="test", limits=BatchLimits(*limits), **options)


async def load(batcher: Batcher[int, int], *keys: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(batcher.load(key)) for key in keys]
    await asyncio.sleep(0.01)
    return tasks


async def test_keys_loaded_during_a_batch_are_in_the_next_one() -> None:
    batches, batcher = held(3)
    tasks = await load(batcher, 1) + await load(batcher, 2, 3, 4, 5)
    assert batches.loaded == [[1]]
    batches.released.set()
    assert await asyncio.gather(*tasks) == [10, 20, 30, 40, 50]
    assert batches.loaded == [[1], [2, 3, 4], [5]]


async def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    batches, batcher = held(9)
    tasks = await load(batcher, 1, 2) + await load(batcher, 3, 4)
    tasks[0].cancel()
    tasks[2].cancel()
    batches.released.set()
    assert [await tasks[1], await tasks[3]] == [20, 40]
    assert batches.loaded == [[1, 2], [4]]


async def test_closing_waits_for_batches_without_callers() -> None:
    batches, batcher = held(9)
    (task,) = await load(batcher, 1)
    task.cancel()
    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0.01)
    assert not closing.done()
    batches.released.set()
    await closing


async def test_an_error_of_a_batch_is_raised_to_its_callers_only() -> None:
    batches, batcher = held(9)
    tasks = await load(batcher, 1, 2)
    batches.failure = QueryTimeout(2)
    batches.failure.__cause__ = OSError("the reason")
    batches.released.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(error) for error in errors] == [str(batches.failure)] * 2
    for error in errors:
        assert isinstance(error, QueryTimeout)
        assert error.__cause__ is batches.failure.__cause__
    assert len({id(error) for error in (*errors, batches.failure)}) == 3, "each has its own"
    batches.failure = None
    assert await batcher.load(3) == 30


async def test_an_error_of_one_key_is_raised_to_its_caller_only() -> None:
    batches, batcher = held(9)
    batches.released.set()
    first, second, third = await load(batcher, 1, -2, 3)
    assert [await first, await third] == [10, 30]
    with pytest.raises(ValueError, match="-2"):
        await second


async def test_a_batch_is_cancelled_when_all_its_callers_are() -> None:
    batches, batcher = held(9, is_cancellable=True)
    first, second = await load(batcher, 1, 2)
    (waiting,) = await load(batcher, 3)
    first.cancel()
    await asyncio.sleep(0.01)
    assert batches.loaded == [[1, 2]]
    second.cancel()
    await asyncio.sleep(0.01)
    assert batches.loaded == [[1, 2], [3]]
    batches.released.set()
    assert await waiting == 30


def test_keys_are_divided_among_parallel_batches_of_a_minimum_size() -> None:
    limits = BatchLimits(999, 2)
    assert [limits.size(waiting, 0) for waiting in (7, 100, 5_000)] == [8, 50, 999]
    assert limits.size(50, 50) == 50


def test_a_batch_below_the_minimum_is_not_dispatched_in_parallel() -> None:
    limits = BatchLimits(999, 2, 64)
    assert limits.may_start(1, 0, 0)
    assert [limits.may_start(waiting, 40, 1) for waiting in (0, 40, 63, 64)] == [
        *[False, False, False, True]
    ]
    assert not limits.may_start(500, 104, 2)


class Pages:
    """Loads pages through a coalescer. batches: the fetches by number, held until released."""

    def __init__(self) -> None:
        self.coalescer = Coalescer[int]("test")
        self.batches = {number: HeldBatches() for number in (1, 2)}

    async def load(self, *numbers: int) -> list[asyncio.Task[int]]:
        tasks = [asyncio.create_task(self.load_one(number)) for number in numbers]
        await asyncio.sleep(0.01)
        return tasks

    async def load_one(self, number: int) -> int:
        async def fetch() -> int:
            (result,) = await self.batches[number].load([number])
            assert isinstance(result, int)
            return result

        return await self.coalescer.load(number, fetch)


async def test_a_fetch_is_cancelled_with_the_last_of_its_callers() -> None:
    pages = Pages()
    first, second, third, fourth = await pages.load(1) + await pages.load(1, 1, 1)
    first.cancel()  # alone in the first fetch
    await asyncio.sleep(0.01)
    assert pages.batches[1].loaded == [[1], [1]]
    second.cancel()
    third.cancel()
    (fifth,) = await pages.load(1)
    assert pages.batches[1].loaded == [[1], [1]]
    fourth.cancel()
    await asyncio.sleep(0.01)
    assert pages.batches[1].loaded == [[1], [1], [1]]
    pages.batches[1].released.set()
    assert await fifth == 10


def load_page(api: Api, query: Query) -> asyncio.Task[Window]:
    """Load a page from the repository, without HTTP."""

    async def load() -> Window:
        app = api.app
        assert query.page is not None
        listing = Listing(app[REPOSITORY].snapshot(), app[GRAPH]["person"], query)
        return await listing.window(query.page)

    return asyncio.create_task(load())


@pytest.mark.budget
async def test_concurrent_requests_take_one_query_per_distinct_page(
    api: Api, commands: CommandLog
) -> None:
    for _ in range(5):
        await api.person()
    commands.take("all")
    queries = [
        Query(
            order=(Key("last_name", descending), Key("_id", descending)),
            page=NumberedPage(number, 2, total=False),
        )
        for descending in (False, True)
        for number in (2, 3)
    ]
    tasks = [load_page(api, query) for query in queries * 15]
    for task in tasks[: len(queries) * 5]:
        task.cancel()
    windows = await asyncio.gather(*tasks[len(queries) * 5 :])
    ids = [[record["_id"] for record in window.records] for window in windows]
    assert ids == [[3, 4], [5], [3, 2], [1]] * 10
    assert commands.take("find") == ["persons"] * len(queries)
