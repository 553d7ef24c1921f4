"""Large computations leave the event loop to others."""

import asyncio
import threading

from registry.offloading import MAX_INLINE_BYTES, MAX_INLINE_OBJECTS, offload, pause
from tests.support import Ticker


async def test_only_large_computations_run_in_a_thread() -> None:
    here = threading.current_thread()
    assert await offload(threading.current_thread, size=MAX_INLINE_OBJECTS) is here
    assert (
        await offload(threading.current_thread, size=MAX_INLINE_BYTES, limit=MAX_INLINE_BYTES)
        is here
    )
    thread = await offload(threading.current_thread, size=MAX_INLINE_OBJECTS + 1)
    assert thread is not here
    assert (
        await offload(threading.current_thread, size=MAX_INLINE_BYTES + 1, limit=MAX_INLINE_BYTES)
        is thread
    )


async def test_turns_are_taken_in_different_iterations_in_the_order_of_the_calls() -> None:
    turns: list[tuple[int, int]] = []

    async def take(number: int) -> None:
        await pause()
        turns.append((ticker.ticks, number))

    async with Ticker() as ticker:
        await asyncio.gather(*(take(number) for number in range(5)))
    assert [number for _, number in turns] == [0, 1, 2, 3, 4]
    assert len({tick for tick, _ in turns}) == 5
