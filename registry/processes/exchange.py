"""What the supervisor and a worker say to each other: settings, readiness, and metrics.

The supervisor adds up the metrics of all workers. What a worker has counted remains in the sums
when it has ended, so that counters never fall.
"""

import asyncio
import os
import pickle
from collections import deque
from contextlib import suppress
from typing import Any, Self

from registry import metrics
from registry.metrics import MetricsSnapshot, without_gauges
from registry.program import StartError

_INTERVAL_SECONDS = 1.0
"""How often a worker sends what it has counted."""

_LENGTH_BYTES = 4
"""Bytes before each message, with its length."""


class Totals:
    """The sums over this process, the workers, and those that have ended."""

    def __init__(self) -> None:
        self._ended: MetricsSnapshot = {}
        self._latest: dict[asyncio.StreamWriter, MetricsSnapshot] = {}

    async def scrape(self) -> MetricsSnapshot:
        """Return the sums. What running workers have counted may be missing for a second."""
        return metrics.total([metrics.take(), self._ended, *self._latest.values()])

    async def collect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the counts that a worker sends, until it ends; answer each time with the sums."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self._latest[writer] = await receive(reader)
                send(writer, await self.scrape())
        last = self._latest.pop(writer, {})
        self._ended = metrics.total([self._ended, without_gauges(last)])


class Reporter:
    """Tells the supervisor what a worker does; sends the last counts at the end of the context.

    If the supervisor is killed, this process ends at once: writes that were acknowledged are in the
    journal of MongoDB.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._answers: deque[asyncio.Future[MetricsSnapshot]] = deque()
        self._reporting: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._receiving = asyncio.create_task(self._receive())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._receiving.cancel()
        if self._reporting is not None:
            self._reporting.cancel()
            self._send()
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def ready(self, line: str) -> None:
        """Tell that the worker is ready, and send its counts from now on. line: to announce."""
        send(self._writer, (line, None))
        self._reporting = asyncio.create_task(self._report())

    def failed(self, error: StartError) -> None:
        """Tell why the worker cannot start."""
        send(self._writer, ("", error))

    async def scrape(self) -> MetricsSnapshot:
        """Return the sums of the supervisor, with what this worker has counted by now."""
        return await asyncio.shield(self._send())  # the answer arrives also if it is cancelled

    async def _report(self) -> None:
        with suppress(ConnectionError):
            while True:
                await asyncio.sleep(_INTERVAL_SECONDS)
                self._send()
                await self._writer.drain()

    async def _receive(self) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                sums = await receive(self._reader)
                self._answers.popleft().set_result(sums)
        os._exit(0)

    def _send(self) -> asyncio.Future[MetricsSnapshot]:
        """Send what this worker has counted; return the sums when they arrive."""
        self._answers.append(asyncio.get_running_loop().create_future())
        send(self._writer, metrics.take())
        return self._answers[-1]


def send(writer: asyncio.StreamWriter, message: Any) -> None:
    """Send a message to the other process."""
    pickled = pickle.dumps(message)
    writer.write(len(pickled).to_bytes(_LENGTH_BYTES, "big") + pickled)


async def receive(reader: asyncio.StreamReader) -> Any:
    """Return the next message. Raises IncompleteReadError or ConnectionError if there is none."""
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - from our own processes
