"""Waiting for a condition that nothing signals."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable


async def eventually(
    condition: Callable[[], object | Awaitable[object]], seconds: float = 60.0
) -> bool:
    """Return whether the condition becomes true within this time; the last check decides."""
    deadline = time.monotonic() + seconds
    while True:
        satisfied = condition()
        if isawaitable(satisfied):
            satisfied = await satisfied
        if satisfied or time.monotonic() > deadline:
            return bool(satisfied)
        await asyncio.sleep(0.01)
