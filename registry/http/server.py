"""The HTTP server: runs an application on the connections of the service, also with TLS."""

import asyncio
import logging
import select
import socket
import ssl
from contextlib import suppress
from time import perf_counter
from typing import Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

from registry.http import ACCESS_LOG
from registry.http.app_keys import ADDRESSES, LIMITS
from registry.http.connection import Connection, EndOfResponse
from registry.http.request_recorder import RequestRecorder

_NOTICE_SECONDS = 0.1
"""A stop that takes longer says what it waits for."""

_CANCEL_SECONDS = 1.0
"""How long requests may still take after their connections have been reset."""

_ACCEPT_SECONDS = 1.0

_BACKLOG = 1_024
"""Connections that the kernel establishes before the event loop accepts them: as many as followers
that connect again at once. With 2,048, some clients under overload wait for five seconds."""

_READ_BUFFER = 2**16
"""Reading pauses when more than twice as many bytes of a body wait. As the event loop reads up to
256,000 at a time, a body that waits takes at most 0.4 MB; with aiohttp's default, 0.8 MB."""

_log = logging.getLogger("registry")


class _ExceptOfClients(logging.Filter):
    """Drops what aiohttp logs of requests that are not valid HTTP: it quotes them, with tokens."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is about a defect of the service."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError | web.RequestPayloadError)


_log_of_aiohttp = logging.getLogger("registry.aiohttp")
_log_of_aiohttp.addFilter(_ExceptOfClients())


class Runner(web.AppRunner):
    """Starts and serves an application. shutdown_timeout: seconds that open requests may take."""

    def __init__(
        self, app: web.Application, *, shutdown_timeout: float = 60.0, access_log: bool = False
    ) -> None:
        limits = app[LIMITS]
        self._limits, self._finish_seconds = limits, shutdown_timeout
        self._recorder = RequestRecorder(app[ADDRESSES] if access_log else None)
        self._connections: set[Connection] = set()
        self._listening: dict[socket.socket, asyncio.Server] = {}
        super().__init__(
            app,
            shutdown_timeout=_CANCEL_SECONDS,
            handler_cancellation=True,
            keepalive_timeout=limits.idle_seconds,
            lingering_time=limits.linger_seconds,
            max_line_size=limits.target_bytes,
            read_bufsize=_READ_BUFFER,
            # Otherwise, the bodies of rejected requests would be decompressed to be discarded.
            auto_decompress=False,
            logger=_log_of_aiohttp,
            access_log=logging.getLogger(ACCESS_LOG),
            access_log_class=EndOfResponse,
        )

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a socket that listens already. tls: None for plain HTTP."""
        server, limits = self.server, self._limits
        assert server is not None  # noqa: S101 - set up
        # A site of aiohttp would not pass the time limits of TLS on.
        self._listening[listener] = await asyncio.get_running_loop().create_server(
            lambda: Connection(server(), limits, self._recorder, self._connections),
            sock=listener,
            backlog=_BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=limits.arrival_seconds if tls else None,
            ssl_shutdown_timeout=limits.stop_idle_seconds if tls else None,
        )

    @property
    def addresses(self) -> list[Any]:
        """The addresses of the sockets, as of `socket.getsockname`."""
        return [listener.getsockname() for listener in self._listening]

    @property
    def requests_in_progress(self) -> int:
        """The number of requests whose response has not ended."""
        return sum(connection.idle_since is None for connection in self._connections)

    async def shutdown(self) -> None:
        """Do nothing: `cleanup` sends the signal earlier than aiohttp would."""

    async def cleanup(self) -> None:
        """Announce the stop, stop listening, let open requests finish, release the resources.

        Connections stay open until a response with `Connection: close`, or until they have been
        idle for a while; those that still have a request in the end are reset.
        """
        if self.server is not None:  # the application has started
            await self.app.shutdown()
        while self._listening:
            listener, server = self._listening.popitem()
            await _accept_established(listener)
            server.close()
        await self._wait_for_clients()
        for connection in list(self._connections):
            connection.abort()
        await super().cleanup()

    async def _wait_for_clients(self) -> None:
        """Wait until all connections are closed; close those that stay idle."""
        began, pause, has_noticed = perf_counter(), 0.001, False
        while self._connections and perf_counter() < began + self._finish_seconds:
            if not has_noticed and perf_counter() > began + _NOTICE_SECONDS:
                busy, has_noticed = self.requests_in_progress, True
                text = (
                    "Stopping: waiting up to %g s for open requests: %d, idle connections: %d; a "
                    "second Ctrl-C exits at once"
                )
                _log.info(text, self._finish_seconds, busy, len(self._connections) - busy)
            used_since = perf_counter() - self._limits.stop_idle_seconds
            for connection in list(self._connections):
                idle_since = connection.idle_since
                if idle_since is not None and max(idle_since, began) < used_since:
                    connection.close()
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)


async def _accept_established(listener: socket.socket) -> None:
    """Accept the connections that clients have established, which closing would reset."""
    listener.listen(1)  # keeps further ones from being established
    pending = select.poll()
    pending.register(listener, select.POLLIN)
    with suppress(TimeoutError):
        async with asyncio.timeout(_ACCEPT_SECONDS):
            while pending.poll(0):  # noqa: ASYNC110 - the kernel sets no event
                await asyncio.sleep(0)  # the event loop accepts
