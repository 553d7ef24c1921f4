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


async def inline() -> tuple[HeldBatches, Batcher[int, int]]:
    """Return an idle batcher whose last caller was alone, and its batches."""
    batches, batcher = held(9, is_cancellable=True)
    batches.released.set()
    assert await batcher.load(1) == 10
    await batcher.close()
    batches.released.clear()
    return batches, batcher


async def test_keys_that_arrive_during_a_lone_batch_share_the_next() -> None:
    batches, batcher = await inline()
    tasks = await load(batcher, 2) + await load(batcher, 3, 4)
    assert batches.loaded == [[1], [2]]
    batches.released.set()
    assert await asyncio.gather(*tasks) == [20, 30, 40]
    assert batches.loaded == [[1], [2], [3, 4]]


async def test_a_batch_is_cancelled_with_the_caller_that_loads_it_alone() -> None:
    batches, batcher = await inline()
    (alone,) = await load(batcher, 2)
    (waiting,) = await load(batcher, 3)
    alone.cancel()
    await asyncio.sleep(0.01)
    assert batches.loaded == [[1], [2], [3]]
    batches.released.set()
    assert await waiting == 30


@pytest.mark.parametrize(("count", "sizes"), [(7, [7]), (100, [50, 50])])
async def test_keys_are_divided_among_parallel_batches_of_a_minimum_size(
    count: int, sizes: list[int]
) -> None:
    batches, batcher = held(999, 2)
    tasks = await load(batcher, *range(count))
    assert [len(keys) for keys in batches.loaded] == sizes
    batches.released.set()
    assert await asyncio.gather(*tasks) == [key * 10 for key in range(count)]


async def test_a_batch_below_the_minimum_is_not_dispatched_in_parallel() -> None:
    batches, batcher = held(999, 2, 64)
    tasks = await load(batcher, *range(40)) + await load(batcher, *range(40, 80))
    assert [len(keys) for keys in batches.loaded] == [40]
    tasks += await load(batcher, *range(80, 110))
    assert [len(keys) for keys in batches.loaded] == [40, 64]
    batches.released.set()
    assert await asyncio.gather(*tasks) == [key * 10 for key in range(110)]


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


async def test_concurrent_requests_take_two_queries_per_distinct_page(
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
    # One for the first request, and one for all that arrive meanwhile.
    assert commands.take("find") == ["persons"] * 2 * len(queries)
