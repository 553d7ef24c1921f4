"""Bulkheads: the operations of each class have a limit and a bounded queue of their own.

A flood of one class then takes neither the threads nor the connections of the others. The rules:

- At most `limit` operations are in progress; others wait, in the order of their arrival.
- Where clients determine how long their slots are occupied, and for large writes, each operation
  names its client. A client may hold at most as many slots as remain free, so one that is slow or
  writes much leaves half to others.
- An operation is refused if `queue` others wait already, or if it has waited for `seconds`. It
  waits as long as it takes if a response needs it that has begun, or that follows a write.
- A caller that is cancelled leaves the queue, or gives back the slot that it has just got.

`Slots` has the state and decides what may start; `Bulkhead` lets callers wait for that.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

from registry.capacity import Capacity
from registry.jsonapi.error_types import Overloaded, retry_after
from registry.metrics import BULKHEAD_IN_PROGRESS, BULKHEAD_REFUSALS, BULKHEAD_WAITING

_Chunk = TypeVar("_Chunk")


class Slots:
    """The slots of a class of operations, and those that wait for one, without an event loop.

    client: the one that determines how long a slot is occupied; None where the service does.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.free = limit
        self._of_client = Counter[str]()  # occupied slots
        # Ordered: a dict takes long to find its first entry when those before it were deleted.
        self.waiting: OrderedDict[Any, str | None] = OrderedDict()

    def take(self, client: str | None) -> bool:
        """Occupy a slot if the client may have one; return whether it has."""
        if self.free <= (0 if client is None else self._of_client[client]):
            return False
        self.free -= 1
        if client is not None:
            self._of_client[client] += 1
        return True

    def of_client(self, client: str) -> int:
        """Return how many slots the client occupies."""
        return self._of_client[client]

    def give_back(self, client: str | None) -> None:
        """Make a slot free that the client has occupied. Call `start` then."""
        self.free += 1
        if client is not None:
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]

    def start(self) -> tuple[Any, str | None] | None:
        """Return the operation that starts now, with its client; None if none may start.

        Call it after each event that makes a slot free, until it returns None.
        """
        if self.free:
            for operation, client in self.waiting.items():
                if self.take(client):
                    del self.waiting[operation]
                    return operation, client
        return None


class Bulkhead:
    """Lets operations of one class wait for slots. name: in metrics and, with blanks, in errors."""

    def __init__(self, name: str, limit: int, queue: int, seconds: float) -> None:
        self._name = name
        self._slots = Slots(limit)
        self._queue = queue
        self._seconds = seconds
        self._refused_by_length = BULKHEAD_REFUSALS.labels(name, "length")
        self._refused_by_time = BULKHEAD_REFUSALS.labels(name, "time")
        self._shown = BULKHEAD_IN_PROGRESS.labels(name), BULKHEAD_WAITING.labels(name)

    def measure(self) -> None:
        """Let the metrics of this process show the operations in progress and in the queue."""
        in_progress, waiting = self._shown
        in_progress.set(self.in_progress)
        waiting.set(self.waiting)

    @property
    def in_progress(self) -> int:
        """How many operations have a slot."""
        return self._slots.limit - self._slots.free

    @property
    def is_idle(self) -> bool:
        """Whether no operation is in progress."""
        return not self.in_progress

    @property
    def waiting(self) -> int:
        """How many operations wait."""
        return len(self._slots.waiting)

    async def acquire(self, client: str | None = None, *, is_refusable: bool = True) -> None:
        """Occupy a slot until `release`, which takes the same client. Raises Overloaded.

        is_refusable: False for a response that has begun or follows a write: it waits as long as it
        takes. Another bulkhead, or the deadline of responses, limits how many of them wait.
        """
        slots = self._slots
        if slots.take(client):
            return
        if is_refusable and self.waiting >= self._queue:
            self._refused_by_length.inc()
            raise self._error(f"{self._queue} others wait already", client)
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        slots.waiting[place] = client
        timer = loop.call_later(self._seconds, self._refuse, place) if is_refusable else None
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                slots.waiting.pop(place, None)
            elif place.exception() is None:
                self.release(client)  # the slot arrived at the same moment
            raise
        finally:
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

    async def read_each(
        self, chunks: AsyncGenerator[_Chunk], *, is_refusable: bool = True
    ) -> AsyncGenerator[_Chunk]:
        """Yield chunks, each of which is read in a slot. Raises Overloaded before the first one.

        is_refusable: False if the response has begun: the first chunk then waits as the others do.
        """
        async with aclosing(chunks):
            while True:
                async with self.slot(is_refusable=is_refusable):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk
                is_refusable = False

    def release(self, client: str | None = None) -> None:
        """Make a slot free, for those that wait."""
        self._slots.give_back(client)
        while started := self._slots.start():
            place, client = started
            if place.done():  # its caller was cancelled, and has not run since
                self._slots.give_back(client)
            else:
                place.set_result(None)

    def _refuse(self, place: asyncio.Future[None]) -> None:
        if place in self._slots.waiting and not place.done():
            self._refused_by_time.inc()
            reason = f"this request has waited for {self._seconds:g} s"
            place.set_exception(self._error(reason, self._slots.waiting.pop(place)))

    def _error(self, reason: str, client: str | None) -> Overloaded:
        name, slots = self._name.replace("_", " "), self._slots
        detail = f"The limit of {name} in progress, {slots.limit}, is reached, and {reason}."
        if client is not None and slots.free:
            detail = (
                f"This address has {slots.of_client(client)} {name} in progress, as many as one "
                f"may have while {slots.free} of {slots.limit} slots are free, and {reason}."
            )
        return Overloaded(f"{detail} Nothing was changed.", headers=retry_after(self._seconds))


@dataclass(frozen=True, slots=True)
class Bulkheads:
    """The bulkheads of one process, each named as its limit in Capacity."""

    small_requests: Bulkhead
    heavy_requests: Bulkhead
    streams: Bulkhead
    uploads: Bulkhead
    followers: Bulkhead

    @classmethod
    def of(cls, limits: Capacity) -> Self:
        """Return bulkheads with these limits."""

        def bulkhead(name: str) -> Bulkhead:
            limit: int = getattr(limits, name)
            return Bulkhead(name, limit, limits.queue_length, limits.queue_seconds)

        return cls(**{field.name: bulkhead(field.name) for field in fields(cls)})

    def measure(self) -> None:
        """Let the metrics of this process show what these bulkheads hold at present."""
        for field in fields(self):
            getattr(self, field.name).measure()
