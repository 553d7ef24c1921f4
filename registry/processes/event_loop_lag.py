"""The lag of the event loop: how late it calls a timer."""

import asyncio
from time import perf_counter
from typing import NoReturn

from registry.metrics.families import EVENT_LOOP_LAG

_INTERVAL_SECONDS = 0.25


async def observe_lag() -> NoReturn:
    """Observe the lag of the running event loop until cancelled."""
    sample = EVENT_LOOP_LAG.sample()
    while True:
        begin = perf_counter()
        await asyncio.sleep(_INTERVAL_SECONDS)
        # A timer of uvloop, which has a resolution of a millisecond, may be called too early.
        EVENT_LOOP_LAG.observe(sample, max(0.0, perf_counter() - begin - _INTERVAL_SECONDS))
