"""The metrics of several workers: the supervisor adds up the snapshots that they send.

A worker sends its snapshot every second on a connection of its own. What it has counted remains in
the sums when the connection ends, so that counters never fall.
"""

import asyncio
import pickle
import socket
from contextlib import suppress
from typing import Any, Self

from registry.metrics import metrics_snapshot
from registry.metrics.metrics_snapshot import MetricsSnapshot, without_gauges

_INTERVAL_SECONDS = 1.0

_LENGTH_BYTES = 4


class Totals:
    """The sums over this process, the workers, and those that have ended.

    channel: an inherited copy of it lets the workers connect; it has no name in the file system
    that other users could open.
    """

    def __init__(self) -> None:
        self._accepting, self.channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._accepting.setblocking(False)
        self._ended: MetricsSnapshot = {}
        self._latest: dict[asyncio.StreamWriter, MetricsSnapshot] = {}
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._accepting, self._accept)
        return self

    async def __aexit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._accepting)
        for task in self._connections:
            task.cancel()
        self._accepting.close()
        self.channel.close()

    async def scrape(self) -> MetricsSnapshot:
        """Return the sums. What running workers have counted may be missing for a second."""
        return metrics_snapshot.total(
            [metrics_snapshot.take(), self._ended, *self._latest.values()]
        )

    def _accept(self) -> None:
        _, (descriptor, *_), _, _ = socket.recv_fds(self._accepting, 1, 1)
        task = asyncio.create_task(self._receive(socket.socket(fileno=descriptor)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _receive(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    self._latest[writer], wants_sums = await _read(reader)
                    if wants_sums:
                        await _write(writer, await self.scrape())
        finally:
            last = self._latest.pop(writer, {})
            self._ended = metrics_snapshot.total([self._ended, without_gauges(last)])
            writer.close()


class Reporter:
    """Sends the snapshots of a worker. channel: that of Totals."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._channel, [b"+"], [theirs.fileno()])
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._task = asyncio.create_task(self._report())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with suppress(ConnectionError):
            await self._send(wants_sums=False)
            self._writer.close()
            await self._writer.wait_closed()

    async def scrape(self) -> MetricsSnapshot:
        """Return the sums of the supervisor, with what this worker has counted by now."""
        # The reply has to be read even if the caller is cancelled.
        return await asyncio.shield(asyncio.create_task(self._exchange()))

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            async with self._lock:
                await self._send(wants_sums=False)

    async def _exchange(self) -> MetricsSnapshot:
        async with self._lock:
            await self._send(wants_sums=True)
            sums: MetricsSnapshot = await _read(self._reader)
            return sums

    async def _send(self, *, wants_sums: bool) -> None:
        await _write(self._writer, (metrics_snapshot.take(), wants_sums))


async def _write(writer: asyncio.StreamWriter, message: Any) -> None:
    pickled = pickle.dumps(message)
    writer.write(len(pickled).to_bytes(_LENGTH_BYTES, "big") + pickled)
    await writer.drain()


async def _read(reader: asyncio.StreamReader) -> Any:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - from our own processes
