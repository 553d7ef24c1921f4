"""Waiting for a condition that nothing signals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def eventually(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> bool:
    """Return whether the condition becomes true within this time; the last check decides."""
    deadline = time.monotonic() + seconds
    while not (satisfied := await condition()) and time.monotonic() < deadline:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    return satisfied
