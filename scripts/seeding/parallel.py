"""Requests in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import NoReturn, TypeVar

from tqdm import tqdm

Item = TypeVar("Item")

CONCURRENCY = 16
"""Requests in flight, enough to keep the service busy."""


async def in_parallel(
    items: Iterable[Item], process: Callable[[Item], Awaitable[None]], bar: tqdm[NoReturn]
) -> None:
    """Process the items, CONCURRENCY at a time, consuming them lazily.

    The first exception stops further items. It is raised once the items in progress are finished,
    because the service may still carry out a cancelled request, which would not be counted.
    """
    source = iter(items)
    failed = False

    async def worker() -> None:
        nonlocal failed
        for item in source:
            try:
                await process(item)
            except Exception:
                failed = True
                raise
            bar.update()
            if failed:
                return

    workers = (worker() for _ in range(CONCURRENCY))
    for error in await asyncio.gather(*workers, return_exceptions=True):
        if error is not None:
            raise error
