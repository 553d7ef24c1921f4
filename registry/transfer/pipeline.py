"""Concurrent processing of items, with results in their order."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

IN_FLIGHT = 3
"""Items in progress: one that the service executes, and one on the way in each direction."""


async def pipelined(
    items: Iterator[_Item], process: Callable[[_Item], Awaitable[_Result]]
) -> AsyncGenerator[_Result]:
    """Yield the results in the order of the items, of which IN_FLIGHT are in progress.

    The first exception, or the end of the iteration, stops further items. It takes effect once the
    items in progress are finished, because the service may execute a request that is cancelled.
    Items are read in a thread, as reading may wait for a pipe, or take long.
    """
    pending: deque[asyncio.Task[_Result]] = deque()

    async def run(item: _Item) -> _Result:
        return await process(item)

    try:
        while (item := await asyncio.to_thread(next, items, None)) is not None:
            pending.append(asyncio.create_task(run(item)))
            if len(pending) == IN_FLIGHT:
                yield await pending.popleft()
        while pending:
            yield await pending.popleft()
    finally:
        await asyncio.gather(*pending, return_exceptions=True)
