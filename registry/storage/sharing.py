"""Requests in flight share a round trip: what is asked during one trip leaves with the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Send: TypeAlias = Callable[[Sequence[_Item]], Awaitable[Sequence[_Result | Exception]]]
"""Takes what several requests ask for, and returns what each of them gets, in the same order."""


class Shared(Generic[_Item, _Result]):
    """A trip to the database that requests take together.

    A trip begins at once if none is under way, and never carries what was asked after it began:
    an answer is no older than its question. Whoever gives up waiting leaves the others alone.

    send: makes a trip. most: items on a trip. trips: how many may be under way.
    """

    def __init__(self, send: Send[_Item, _Result], *, most: int, trips: int = 1) -> None:
        self._send = send
        self._most = most
        self._free = trips
        self._waiting: deque[tuple[_Item, asyncio.Future[_Result]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, item: _Item) -> _Result:
        """Return the result for the item. Raises what the trip failed with."""
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._begin()
        return await future

    def _begin(self) -> None:
        if self._waiting and self._free:
            self._free -= 1
            task = asyncio.create_task(self._travel())
            self._under_way.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._free += 1
        self._begin()

    async def _travel(self) -> None:
        batch = self._board()
        if not batch:
            return
        try:
            results = await self._send([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _board(self) -> list[tuple[_Item, asyncio.Future[_Result]]]:
        """Take those who have waited longest, and are still waiting."""
        batch: list[tuple[_Item, asyncio.Future[_Result]]] = []
        while self._waiting and len(batch) < self._most:
            item, future = self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        return batch
