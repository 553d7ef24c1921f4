"""The time in which a response has to begin."""

import asyncio
from typing import Any

from registry.jsonapi.error_types import Unavailable


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

    def start(self) -> asyncio.Task[Any]:
        """Limit the time of the current task from now on, unless it is limited; return the task."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - for mypy: called in coroutines
        loop = task.get_loop()  # takes a tenth of the time of asyncio.get_running_loop()
        end = self._ends.setdefault(task, loop.time() + self._seconds)
        if self._timer is None:
            self._timer = loop.call_at(end, self._cancel_late)
        return task

    def end(self, task: asyncio.Task[Any]) -> None:
        """End the limit of a task. Raises Unavailable if it was cancelled because of it."""
        if self._ends.pop(task, None) is None and task in self._late:
            self._late.remove(task)
            if not task.uncancel():
                raise Unavailable from None

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
