"""The pipeline: items in parallel, results in order."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from registry.transfer.pipeline import IN_FLIGHT, pipelined


async def test_results_are_in_the_order_of_the_items_whichever_ends_first() -> None:
    events = {number: asyncio.Event() for number in range(IN_FLIGHT)}

    async def process(number: int) -> int:
        if number + 1 < IN_FLIGHT:
            await events[number + 1].wait()
        events[number].set()
        return number

    found = [result async for result in pipelined(iter(range(IN_FLIGHT)), process)]
    assert found == list(range(IN_FLIGHT))


async def test_a_failure_stops_further_items_after_those_in_progress() -> None:
    started, finished = [], []

    async def process(number: int) -> None:
        started.append(number)
        await asyncio.sleep(0)
        if number == 0:
            raise LookupError
        finished.append(number)

    with pytest.raises(LookupError):
        async for _ in pipelined(iter(range(100)), process):
            pass
    assert 0 < len(started) <= IN_FLIGHT
    assert finished == started[1:]


async def test_items_in_progress_are_finished_if_the_results_are_not_read_to_the_end() -> None:
    started, finished = [], []

    async def process(number: int) -> None:
        started.append(number)
        await asyncio.sleep(0)
        finished.append(number)

    async with aclosing(pipelined(iter(range(100)), process)) as results:
        await anext(results)
    assert len(started) == IN_FLIGHT
    assert finished == started
