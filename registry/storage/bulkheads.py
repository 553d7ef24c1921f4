"""Bulkheads: the operations of each class have a limit and a bounded queue of their own.

A flood of one class then takes neither the threads nor the connections of the others.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Self

from registry.capacity import Capacity
from registry.jsonapi.error_types import Overloaded
from registry.metrics import BULKHEAD_IN_PROGRESS, BULKHEAD_REFUSALS, BULKHEAD_WAITING


class Bulkhead:
    """Limits how many operations of one class are in progress; others wait, in order of arrival.

    Overloaded is raised if `queue` others wait already, or after `seconds` of waiting. A caller
    that is cancelled leaves the queue. name: in metrics and, with blanks, in errors.

    Where a client determines how long its slots are occupied, the caller names it. A client gets
    another slot only while it has fewer than are free: at most half of all, the next at most half
    of the rest, and so on, so that a slow one leaves slots to others.
    """

    def __init__(self, name: str, limit: int, queue: int, seconds: float) -> None:
        self._name = name
        self._limit = limit
        self._queue = queue
        self._seconds = seconds
        self._free = limit
        self._of_client = Counter[str]()  # occupied slots
        # In order of arrival, with their clients; a dict takes long to find its first entry when
        # those before it have been deleted.
        self._waiting: OrderedDict[asyncio.Future[None], str | None] = OrderedDict()
        self._refused_by_length = BULKHEAD_REFUSALS.sample(name, "length")
        self._refused_by_time = BULKHEAD_REFUSALS.sample(name, "time")

    def expose(self) -> None:
        """Let the metrics of this process show the operations in progress and in the queue."""
        BULKHEAD_IN_PROGRESS.set_function(lambda: self._limit - self._free, self._name)
        BULKHEAD_WAITING.set_function(lambda: len(self._waiting), self._name)

    @property
    def is_idle(self) -> bool:
        """Whether no operation is in progress."""
        return self._free == self._limit

    async def acquire(self, client: str | None = None, *, is_refusable: bool = True) -> None:
        """Occupy a slot until `release`, which takes the same client. Raises Overloaded.

        is_refusable: otherwise it waits as long as it takes, as a response that has begun. Another
        bulkhead limits how many such callers there are.
        """
        if self._admits(client):
            self._occupy(client)
            return
        if is_refusable and len(self._waiting) >= self._queue:
            self._refused_by_length[0] += 1
            raise self._error(f"{self._queue} others wait already", client)
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._waiting[place] = client
        timer = loop.call_later(self._seconds, self._refuse, place) if is_refusable else None
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled() and place.exception() is None:
                self.release(client)  # the slot arrived at the same moment
            raise
        finally:
            self._waiting.pop(place, None)
            if timer is not None:
                timer.cancel()

    __aenter__ = acquire

    async def __aexit__(self, *_: object) -> None:
        self.release()

    @asynccontextmanager
    async def slot(
        self, client: str | None = None, *, is_refusable: bool = True
    ) -> AsyncIterator[None]:
        """Occupy a slot, as `acquire`. Raises Overloaded."""
        await self.acquire(client, is_refusable=is_refusable)
        try:
            yield
        finally:
            self.release(client)

    def release(self, client: str | None = None) -> None:
        """Pass the slot on to the caller that has waited longest and may have one."""
        self._free += 1
        if client is not None:
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]
        while self._waiting and self._free:
            waiting = self._waiting.items()
            may_enter = (one for one in waiting if not one[0].done() and self._admits(one[1]))
            place, client = next(may_enter, (None, None))
            if place is None:
                break
            del self._waiting[place]
            self._occupy(client)
            place.set_result(None)

    def _admits(self, client: str | None) -> bool:
        return self._free > (0 if client is None else self._of_client[client])

    def _occupy(self, client: str | None) -> None:
        self._free -= 1
        if client is not None:
            self._of_client[client] += 1

    def _refuse(self, place: asyncio.Future[None]) -> None:
        if not place.done():
            self._refused_by_time[0] += 1
            reason = f"this request has waited for {self._seconds:g} s"
            place.set_exception(self._error(reason, self._waiting[place]))

    def _error(self, reason: str, client: str | None) -> Overloaded:
        name = self._name.replace("_", " ")
        reached = "is reached for this address" if client and self._free else "is reached"
        detail = f"The limit of {name} in progress, {self._limit}, {reached}, and {reason}."
        return Overloaded(f"{detail} Nothing was changed.", retry_after=self._seconds)


_DATABASE = ("small_requests", "heavy_queries", "streams", "large_transactions")
"""The bulkheads of operations on the database."""


@dataclass(frozen=True, slots=True)
class Bulkheads:
    """The bulkheads of one process, each named as its limit in Capacity."""

    small_requests: Bulkhead
    heavy_queries: Bulkhead
    streams: Bulkhead
    large_transactions: Bulkhead
    large_bodies: Bulkhead
    large_documents: Bulkhead
    followers: Bulkhead
    catch_ups: Bulkhead

    @classmethod
    def of(cls, limits: Capacity) -> Self:
        """Return bulkheads with these limits."""

        def bulkhead(name: str) -> Bulkhead:
            limit: int = getattr(limits, name)
            return Bulkhead(name, limit, limits.queue_length, limits.queue_seconds)

        return cls(**{field.name: bulkhead(field.name) for field in fields(cls)})

    def expose(self) -> None:
        """Let the metrics of this process show these bulkheads."""
        for field in fields(self):
            getattr(self, field.name).expose()
