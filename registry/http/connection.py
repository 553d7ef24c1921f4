"""One client connection: limits around the protocol with which aiohttp serves it.

aiohttp limits the time of a head, as that of an idle connection, and the size of its lines. Here,
reading pauses while much has arrived ahead of a response. If that turns out to be an endless head,
or a body of little but framing, the connection is closed. If the client does not read what is sent
to it, the connection is reset.
"""

import asyncio
import logging
from time import perf_counter
from typing import cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractAccessLogger

from registry.http.app_keys import Limits
from registry.http.error_responses import reset
from registry.http.request_recorder import RequestRecorder

_TLS_BUFFER = 2**12
"""Bytes that may wait to be sent by TLS. With a lower limit than the session tickets, which wait
after a handshake, the event loop would never read the connection."""

_BEGIN_SECONDS = 0.1
"""How long aiohttp may take to call the middlewares for a head that has arrived."""

_MAX_FRAMING = 8
"""Bytes that may arrive for each byte of a body, beside those of a head: chunks of one byte have
five more, and extensions of chunks any number."""

_log = logging.getLogger("registry")


class Connection(asyncio.Protocol):
    """Passes what the event loop reports on to `protocol`, that of aiohttp, within the limits.

    connections: those of the server that are open.
    """

    _transport: asyncio.Transport

    def __init__(
        self,
        protocol: asyncio.Protocol,
        limits: Limits,
        recorder: RequestRecorder,
        connections: "set[Connection]",
    ) -> None:
        self._protocol, self._limits, self._recorder = protocol, limits, recorder
        self._connections, self._loop = connections, asyncio.get_running_loop()
        self._request: web.BaseRequest | None = None  # until the end of its response
        self._body: StreamReader | None = None  # of the request; after a response, if incomplete
        self._since = perf_counter()  # when the request began, or the last response ended
        self._arrived = 0  # bytes since then
        self._hold_timer: asyncio.TimerHandle | None = None  # while reading is paused here
        self._send_timer: asyncio.TimerHandle | None = None

    @property
    def idle_since(self) -> float | None:
        """The time since when nothing of a request has arrived; None if one is in progress."""
        return self._since if self._request is None and not self._arrived else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        self._transport = cast(asyncio.Transport, transport)
        is_tls = transport.get_extra_info("sslcontext") is not None
        # In addition to what the kernel buffers.
        self._transport.set_write_buffer_limits(_TLS_BUFFER if is_tls else 0)
        self._connections.add(self)
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what has arrived; read no further while it is far ahead."""
        self._arrived += len(data)
        self._protocol.data_received(data)
        if self._arrived > self._limits.head_bytes:
            self._pause_if_far_ahead()

    def eof_received(self) -> bool | None:
        """Close the connection: a client that half-closes it has gone."""
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the request in progress was aborted, if there is one."""
        self._connections.discard(self)
        for timer in (self._hold_timer, self._send_timer):
            if timer is not None:
                timer.cancel()
        if self._request is not None:
            self._record(self._request, None)
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Limit the time until the client has read what was sent."""
        self._protocol.pause_writing()
        self._limit_sending()

    def resume_writing(self) -> None:
        """Continue: the client has read what was sent."""
        self._protocol.resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()

    def begin(self, request: web.BaseRequest) -> None:
        """Begin a request, whose head has arrived."""
        self._request, self._body, self._since = request, request.content, perf_counter()
        self._read_on()

    def finish(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Record the end of a response, and await the next request."""
        if request is not self._request:  # it is not valid HTTP, so that no middleware has begun it
            self._since = perf_counter()
        self._record(request, None if self._transport.is_closing() else response)
        if request.content.is_eof():  # else aiohttp discards the rest
            self._body = None
        self._read_on()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def abort(self) -> None:
        """Reset the connection, so that the client does not take a partial response for a whole."""
        reset(self._transport)

    def _record(self, request: web.BaseRequest, response: web.StreamResponse | None) -> None:
        now = perf_counter()
        self._recorder.record(request, response, now - self._since)
        self._request, self._since = None, now

    @property
    def _receives_body(self) -> bool:
        return self._body is not None and not self._body.is_eof()

    def _pause_if_far_ahead(self) -> None:
        """Pause if more has arrived than a head, and the body of a request with its framing."""
        body_bytes = 0 if self._body is None else self._body.total_bytes
        is_far_ahead = self._arrived > self._limits.head_bytes + _MAX_FRAMING * body_bytes
        # What aiohttp has paused is left to it: it bounds the bodies and requests that wait.
        if is_far_ahead and self._transport.is_reading():
            self._transport.pause_reading()
            self._hold_timer = self._loop.call_later(_BEGIN_SECONDS, self._end_unless_complete)

    def _end_unless_complete(self) -> None:
        """Close the connection unless a whole request has arrived, which awaits its response."""
        if self._request is None or self._receives_body:
            self._transport.close()

    def _read_on(self) -> None:
        """Count anew what arrives; continue to read if that is paused here."""
        self._arrived = 0
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _limit_sending(self) -> None:
        self._send_timer = self._loop.call_later(self._limits.send_seconds, self._abort_slow_reader)

    def _abort_slow_reader(self) -> None:
        if self._receives_body:  # it may send a whole file before it reads any of the report
            self._limit_sending()
            return
        _log.info("A client has not read a part of its response in %g s", self._limits.send_seconds)
        self.abort()


class EndOfResponse(AbstractAccessLogger):
    """Tells a connection that a response has ended, which is when aiohttp logs it."""

    def log(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        time: float,  # noqa: ARG002 - in milliseconds only, as the event loop counts them
    ) -> None:
        """Record the end of a response, unless the connection was lost before."""
        connection = connection_of(request)
        if connection is not None:
            connection.finish(request, response)


def connection_of(request: web.BaseRequest) -> Connection | None:
    """Return the connection of a request; None if it has ended, or another server has made it."""
    transport = request.transport
    protocol = None if transport is None else transport.get_protocol()
    return protocol if isinstance(protocol, Connection) else None
