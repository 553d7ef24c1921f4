"""Computations on large documents, beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakKeyDictionary

_Result = TypeVar("_Result")

MAX_INLINE_OBJECTS = 500
"""Resources or identifiers that the event loop handles without a pause: about 1 ms."""

MAX_INLINE_BYTES = 50_000
"""Bytes of JSON that the event loop parses or hashes without a pause."""

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

# One thread, so that at most one large document competes with the event loop for the interpreter.
_executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-documents")


async def offload(
    compute: Callable[[], _Result], *, size: int, limit: int = MAX_INLINE_OBJECTS
) -> _Result:
    """Run a computation, in a thread if its size exceeds the limit, and return its result.

    size, limit: in the same unit. The computation must not use the event loop, nor modify what
    others use. If the caller is cancelled, the thread continues. Raises what it raises.
    """
    if size <= limit:
        return compute()
    return await asyncio.get_running_loop().run_in_executor(_executor, compute)


async def pause() -> None:
    """Let the event loop serve others; of concurrent callers, one continues per iteration."""
    loop = asyncio.get_running_loop()
    async with _turns.setdefault(loop, asyncio.Lock()):
        await asyncio.sleep(0)
