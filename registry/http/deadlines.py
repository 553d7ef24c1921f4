"""Deadlines: the time until the response to a request has to begin."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from registry.jsonapi.errors import Unavailable

_Result = TypeVar("_Result")


class Deadlines:
    """Ends the requests whose responses do not begin within `seconds`.

    One timer serves all of them, since the oldest is the first to end: a timer and its context
    manager for each take ten times as long as these methods.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[asyncio.Task[Any], float] = {}  # the first to end comes first
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self, respond: Awaitable[_Result]) -> _Result:
        """Return what a request results in. Raises Unavailable if that takes too long."""
        task = self.start()
        try:
            return await respond
        except asyncio.CancelledError:
            if task not in self._late or task.uncancel():
                raise
            raise Unavailable from None
        finally:
            self._ends.pop(task, None)
            self._late.discard(task)

    def start(self) -> asyncio.Task[Any]:
        """Limit the time of the current task from now on; return the task."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None  # noqa: S101 - for mypy: called in coroutines
        self._ends.pop(task, None)
        self._ends[task] = end = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(end, self._cancel_late)
        return task

    def stop(self) -> None:
        """End the limit, while the client determines how long the request takes."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for mypy: called in coroutines
        self._ends.pop(task, None)

    def _cancel_late(self) -> None:
        self._timer, loop = None, asyncio.get_running_loop()
        while self._ends:
            task, end = next(iter(self._ends.items()))
            if end > loop.time():
                self._timer = loop.call_at(end, self._cancel_late)
                return
            del self._ends[task]
            self._late.add(task)
            task.cancel()
