"""Writes in progress, which are completed even if their callers are cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class WritesInProgress:
    """The writes of one process that have begun and have not ended."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, write: Coroutine[Any, Any, _Result]) -> asyncio.Future[_Result]:
        """Begin a write; return the future of what it returns or raises.

        A caller that is cancelled while it waits for the future does not end the write.
        """
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_resolve(future, write))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return future

    async def ended(self) -> None:
        """Wait until no write is in progress."""
        while self._tasks:
            await asyncio.wait(self._tasks)


async def _resolve(
    future: asyncio.Future[_Result], operation: Coroutine[Any, Any, _Result]
) -> None:
    try:
        result = await operation
    except Exception as error:  # noqa: BLE001 - raised to the caller
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)
