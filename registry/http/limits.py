"""Limits of size and time on requests and connections: their values, deadlines, header fields."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiohttp import StreamReader
from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage

from registry.jsonapi.error_types import ServiceUnavailable

_Parsed: TypeAlias = tuple[Sequence[tuple[RawRequestMessage, StreamReader]], bool, bytes]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one request and its connection.

    target_bytes: a longer request target, a path with its query string, is rejected with 400.
    fields_bytes: larger header fields, in total, are rejected with 431. body_bytes: a larger body
    is rejected with 413. arrival_seconds: the time the head, and after it the body, may take to
    arrive; 408 after that. A TLS handshake may take as long. linger_seconds: how long the rest of
    the body of a rejected request is read and discarded, so that the client reads the response
    before the connection closes. idle_seconds: the idle timeout, after which a connection without a
    request is closed. stop_idle_seconds: the same while the service stops, so that a client that
    reuses its connections loses no request; also how long the client may take to confirm the end of
    a TLS connection. send_seconds: how long a client may take to read one part of a response, of at
    most `responses.MAX_WRITE` bytes, before its connection is reset.
    """

    target_bytes: int = 2**17
    fields_bytes: int = 2**16
    body_bytes: int = 2**20
    arrival_seconds: float = 30.0
    linger_seconds: float = 5.0
    idle_seconds: float = 75.0
    stop_idle_seconds: float = 5.0
    send_seconds: float = 60.0


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
        """End the limit of a task. Raises ServiceUnavailable if it was cancelled because of it."""
        if self._ends.pop(task, None) is None and task in self._late:
            self._late.remove(task)
            if not task.uncancel():
                raise ServiceUnavailable from None

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


class FieldsTooLarge(HttpProcessingError):
    """The fields exceed the limit; what follows them is discarded."""


class FieldsLimit:
    """A parser of requests that refuses fields before all of them have arrived.

    aiohttp limits each field and their number, which allows a head of 1 MB, and an incomplete head
    takes twice its size in memory. max_bytes: without the request target, which has its own limit.
    is_exceeded: whether fields have been refused.
    """

    def __init__(self, parser: HttpRequestParser, max_bytes: int) -> None:
        self._parser: HttpRequestParser | None = parser
        self._max_bytes = max_bytes
        self._size = 0  # of what has arrived since the last request, or part of a body
        self._has_target = False
        self._body: StreamReader | None = None  # of the last request
        self._body_size = 0
        self.is_exceeded = False
        self.pause_reading: Callable[[], None] = parser.pause_reading
        self.message_consumed: Callable[[], None] = parser.message_consumed
        self.set_upgraded: Callable[[bool], None] = parser.set_upgraded

    def feed_data(self, data: bytes) -> _Parsed:
        """Parse what has arrived. Raises FieldsTooLarge, or what the parser raises."""
        if self._parser is None:
            return (), False, b""
        parsed = self._parser.feed_data(data)
        if requests := parsed[0]:
            self._body = requests[-1][1]
        body_size = 0 if self._body is None else self._body.total_bytes
        if requests or body_size != self._body_size:
            self._body_size, self._size, self._has_target = body_size, 0, False
            return parsed
        # Empty lines, of two bytes, may precede a request (RFC 9112, 2.2).
        start = 0 if self._has_target else data.find(b"\n", 2) + 1
        self._has_target = self._has_target or start > 0
        self._size += len(data) - start if self._has_target else 0
        if self._size > self._max_bytes:
            # The memory of the parser is free while the client reads the response.
            self._parser = None
            self.pause_reading = self.message_consumed = lambda: None
            self.set_upgraded = lambda _: None
            self.is_exceeded = True
            raise FieldsTooLarge
        return parsed
