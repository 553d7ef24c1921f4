"""What views, middlewares and the server share, by its keys in the application."""

import asyncio
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from registry.http.addresses import Addresses
from registry.jsonapi.error_types import Unavailable
from registry.model.graph import Graph
from registry.settings import Settings
from registry.storage import Repository


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one request and its connection.

    target_bytes, head_bytes, body_bytes: of path and query string, of the head with these, of the
    body. arrival_seconds: for a body, and for a TLS handshake. linger_seconds: how long the rest of
    a rejected body is discarded, so that the client reads the response. idle_seconds: until the
    next head has arrived; then the connection is closed. stop_idle_seconds: the same during a stop,
    so that clients that reuse connections lose no request. send_seconds: for the client to read one
    part of a response, of at most `sending.MAX_WRITE` bytes. waiting_bytes: of large bodies that
    clients have not read yet, in total; a client may have half of them.
    """

    target_bytes: int = 2**17
    head_bytes: int = 3 * 2**16
    body_bytes: int = 2**20
    arrival_seconds: float = 30.0
    linger_seconds: float = 5.0
    idle_seconds: float = 75.0
    stop_idle_seconds: float = 5.0
    send_seconds: float = 60.0
    waiting_bytes: int = 2**27


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


DEADLINES = web.AppKey("deadlines", Deadlines)
GRAPH = web.AppKey("graph", Graph)
LIMITS = web.AppKey("limits", Limits)
NOTICE = web.AppKey("notice", str)
"""What is reported when the service is ready, beside its URLs; may be empty."""

ADDRESSES = web.AppKey("addresses", Addresses)
REPOSITORY = web.AppKey("repository", Repository)
SETTINGS = web.AppKey("settings", Settings)
STOPPING = web.AppKey("stopping", asyncio.Event)
"""Set when the service begins to stop."""
