"""Requests in flight share a round trip: what is asked during one trip leaves with the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Send: TypeAlias = Callable[[Sequence[_Item]], Awaitable[Sequence[_Result | Exception]]]
"""Takes what several requests ask for, and returns what each of them gets, in the same order."""

Find: TypeAlias = Callable[[], Awaitable[_Result]]
"""Finds the answer to a question."""


_PASSES = 2
"""How often the event loop goes round after a trip before the next begins that is not full. Whoever
was answered and asks again comes along then, where a trip of few would go ahead of one of all the
others."""

_FEW = 8
"""So many items are not worth two trips."""


class Shared(Generic[_Item, _Result]):
    """A trip to the database that requests take together.

    A trip begins at once if none is under way, and never carries what was asked after it began:
    an answer is no older than its question. Another begins beside it when as many wait as it takes:
    trips of few cost more than they gain. Whoever gives up waiting leaves the others alone.

    send: makes a trip. most: items on a trip. trips: how many may be under way. at_rest: called
    when the last of them has ended, and nobody waits.
    """

    def __init__(
        self,
        send: Send[_Item, _Result],
        *,
        most: int,
        trips: int = 1,
        at_rest: Callable[[], Any] | None = None,
    ) -> None:
        self._send = send
        self._most = most
        self._trips = trips
        self._away = 0
        self._at_rest = at_rest
        self._waiting: deque[tuple[_Item, asyncio.Future[_Result]]] = deque()
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, item: _Item) -> _Result:
        """Return the result for the item. Raises what the trip failed with."""
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._begin()
        return await future

    def _begin(self) -> None:
        if not self._waiting or len(self._under_way) == self._trips:
            return
        if not self._under_way or len(self._waiting) >= self._share:
            task = asyncio.create_task(self._travel())
            self._under_way.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._begin()
        if self._at_rest and not self._under_way:
            self._at_rest()

    async def _travel(self) -> None:
        batch = self._board()
        if not batch:
            return
        self._away += len(batch)
        try:
            results = await self._send([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
            results = [error] * len(batch)
        finally:
            self._away -= len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                if isinstance(result, Exception):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        await self._let_others_ask()

    async def _let_others_ask(self) -> None:
        if len(self._waiting) < self._most:
            for _ in range(_PASSES):
                await asyncio.sleep(0)

    @property
    def _share(self) -> int:
        """How many a trip takes where several may be under way.

        What came back together would leave together, and the service and the database would each
        wait for the other.
        """
        share = -(-(len(self._waiting) + self._away) // self._trips)
        return min(self._most, max(share, _FEW))

    def _board(self) -> list[tuple[_Item, asyncio.Future[_Result]]]:
        """Take those who have waited longest, and are still waiting."""
        batch: list[tuple[_Item, asyncio.Future[_Result]]] = []
        share = self._share
        while self._waiting and len(batch) < share:
            item, future = self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        return batch


class SharedByKey(Generic[_Result]):
    """Questions of which equal ones take a trip together; others never wait for each other.

    A key is kept for as long as somebody asks. most: questions that one answer is for.
    """

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._shared: dict[Hashable, Shared[Find[_Result], _Result]] = {}

    async def ask(self, key: Hashable, find: Find[_Result]) -> _Result:
        """Return what `find` finds, or what that of an equal key does. Raises what it raises."""
        if key not in self._shared:
            forget = partial(self._shared.pop, key)
            self._shared[key] = Shared(_find_once, most=self._most, at_rest=forget)
        return await self._shared[key].ask(find)


async def _find_once(asked: Sequence[Find[_Result]]) -> Sequence[_Result]:
    found = await asked[0]()
    return [found] * len(asked)
