"""One client connection: limits of time and size, around the protocol with which aiohttp serves it.

A connection is closed without a response if the head of a request is late or too large, if a body
consists of little but its framing, or if the client does not read what is sent to it. Reading
pauses while the client has not read a response, or has sent much ahead of one.
"""

import asyncio
import logging
from time import perf_counter
from typing import cast

from aiohttp import web
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


class Connections:
    """The open connections of a server. is_stopping: whether they close once they are idle."""

    def __init__(self, limits: Limits, recorder: RequestRecorder) -> None:
        self.limits, self.recorder = limits, recorder
        self.open: set[Connection] = set()
        self.is_stopping = False

    def stop(self) -> None:
        """Close each connection that stays idle, also those that are accepted later."""
        self.is_stopping = True
        for connection in self.open:
            connection.close_when_idle()


class Connection(asyncio.Protocol):
    """Passes what the event loop reports on to `protocol`, that of aiohttp, within the limits."""

    _transport: asyncio.Transport

    def __init__(self, protocol: asyncio.Protocol, connections: Connections) -> None:
        self._protocol, self._connections = protocol, connections
        self._limits, self._loop = connections.limits, asyncio.get_running_loop()
        self._request: web.BaseRequest | None = None  # until the end of its response
        self._begun_at = 0.0
        self._unread = 0  # bytes of heads, and of all that was sent ahead of a response
        self._body_bytes = 0  # bytes that arrived while the body of the request was incomplete
        self._head_since: float | None = None
        self._is_blocked = False  # until the client reads
        self._holds = False  # whether reading is paused here, and not by aiohttp
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request, nor any part of one, has arrived and awaits its response."""
        return self._request is None and not self._unread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        self._transport = cast(asyncio.Transport, transport)
        is_tls = transport.get_extra_info("sslcontext") is not None
        # In addition to what the kernel buffers.
        self._transport.set_write_buffer_limits(_TLS_BUFFER if is_tls else 0)
        self._connections.open.add(self)
        self._protocol.connection_made(transport)
        self._await_head()
        if self._connections.is_stopping:
            self.close_when_idle()

    def data_received(self, data: bytes) -> None:
        """Pass on what has arrived; count what is not part of a body."""
        request = self._request
        if request is None or request.content.is_eof():
            self._unread += len(data)
            if self._head_since is None and request is None:
                self._await_head()
        else:
            self._body_bytes += len(data)
            allowed = self._limits.head_bytes + _MAX_FRAMING * request.content.total_bytes
            if self._body_bytes > allowed:
                self._transport.close()
        self._protocol.data_received(data)
        if self._unread > self._limits.head_bytes:
            self._regulate_reading()

    def eof_received(self) -> bool | None:
        """Close the connection: a client that half-closes it has gone."""
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the request in progress was aborted, if there is one."""
        self._connections.open.discard(self)
        for timer in (self._head_timer, self._idle_timer, self._send_timer):
            if timer is not None:
                timer.cancel()
        if self._request is not None:
            self._record(self._request, None)
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Read no further requests until the client reads its responses; limit the time of that."""
        self._protocol.pause_writing()
        self._is_blocked = True
        self._limit_sending()
        self._regulate_reading()

    def resume_writing(self) -> None:
        """Continue: the client has read what was sent."""
        self._protocol.resume_writing()
        self._is_blocked = False
        if self._send_timer is not None:
            self._send_timer.cancel()
        self._regulate_reading()

    def begin(self, request: web.BaseRequest) -> None:
        """End the limits of a head, as a request has arrived."""
        self._request, self._begun_at = request, perf_counter()
        self._head_since = None
        self._unread = self._body_bytes = 0
        if self._holds:
            self._regulate_reading()

    def finish(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Record the end of a response, and await the next request."""
        if request is not self._request:  # it is not valid HTTP, so that no middleware has begun it
            self._begun_at = perf_counter()
        self._record(request, None if self._transport.is_closing() else response)
        if self._unread:
            self._await_head()
        if self._holds:
            self._regulate_reading()
        if self._connections.is_stopping:
            self.close_when_idle()

    def close_when_idle(self) -> None:
        """Close the connection unless a request arrives in time; for a stop."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        seconds = self._limits.stop_idle_seconds
        self._idle_timer = self._loop.call_later(seconds, self._close_if_idle)

    def abort(self) -> None:
        """Reset the connection, so that the client does not take a partial response for a whole."""
        reset(self._transport)

    def _record(self, request: web.BaseRequest, response: web.StreamResponse | None) -> None:
        self._request = None
        self._connections.recorder.record(request, response, perf_counter() - self._begun_at)

    def _await_head(self) -> None:
        """Limit the time of the next head. The timer of an earlier one is used again."""
        self._head_since = self._loop.time()
        if self._head_timer is None:
            seconds = self._limits.arrival_seconds
            self._head_timer = self._loop.call_later(seconds, self._check_head)

    def _check_head(self) -> None:
        self._head_timer = None
        if self._head_since is None:
            return
        late_at = self._head_since + self._limits.arrival_seconds
        if self._loop.time() < late_at:
            self._head_timer = self._loop.call_at(late_at, self._check_head)
        else:
            self._transport.close()

    def _regulate_reading(self) -> None:
        """Pause reading, or continue with it. What aiohttp has paused is left to it."""
        is_ahead = self._unread > self._limits.head_bytes
        if is_ahead and self._request is None:
            self._loop.call_later(_BEGIN_SECONDS, self._refuse_large_head)
        # A client may send a whole file before it reads any of the report; aiohttp bounds what
        # waits of a body.
        holds = is_ahead or (self._is_blocked and not self._receives_body)
        if holds and not self._holds and self._transport.is_reading():
            self._transport.pause_reading()
            self._holds = True
        elif self._holds and not holds:
            self._holds = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _refuse_large_head(self) -> None:
        if self._request is None and self._unread > self._limits.head_bytes:
            self._transport.close()

    @property
    def _receives_body(self) -> bool:
        """Whether the response has begun before the body of its request is complete."""
        return self._request is not None and not self._request.content.is_eof()

    def _limit_sending(self) -> None:
        self._send_timer = self._loop.call_later(self._limits.send_seconds, self._abort_slow_reader)

    def _abort_slow_reader(self) -> None:
        if self._receives_body:
            self._limit_sending()
            return
        _log.info("A client has not read a part of its response in %g s", self._limits.send_seconds)
        self.abort()

    def _close_if_idle(self) -> None:
        if self.is_idle:
            self._transport.close()


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
