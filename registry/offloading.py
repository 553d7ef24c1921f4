"""Computations on large documents, beside the event loop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

MANY = 500
"""Objects that the event loop handles without serving others; their JSON takes about 1 ms."""

LARGE = 50_000
"""Bytes of JSON that the event loop parses or hashes without serving others."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

# One thread, so that large documents take turns. Python switches between threads every 5 ms.
_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-documents")


async def offload(compute: Callable[[], _Result], *, size: int, limit: int = MANY) -> _Result:
    """Return the result of a computation, which a thread does if its size is above the limit.

    It must neither use the event loop nor modify what others use. Raises what it raises.
    """
    if size <= limit:
        return compute()
    return await asyncio.get_running_loop().run_in_executor(_executor, compute)


async def take_turn() -> None:
    """Wait until other callers have had their turn: one per iteration of the event loop."""
    loop = asyncio.get_running_loop()
    async with _turns.setdefault(loop, asyncio.Lock()):
        await asyncio.sleep(0)


async def in_steps(items: Sequence[_Item]) -> AsyncGenerator[Sequence[_Item]]:
    """Yield the items, MANY at a time; the event loop serves others in between."""
    for start in range(0, len(items), MANY):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + MANY]
