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
from registry.http.sending import MAX_WRITE

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
    """The open connections of a server, with what they share.

    is_stopping: whether each closes after its next response, or if no request arrives in time.
    """

    def __init__(self, limits: Limits, recorder: RequestRecorder) -> None:
        self.limits, self.recorder = limits, recorder
        self.open: set[Connection] = set()
        self.is_stopping = False

    def stop(self) -> None:
        """Let each connection end, also those that are accepted later."""
        self.is_stopping = True
        for connection in self.open:
            connection.close_when_idle()


class Connection(asyncio.Protocol):
    """Passes what the event loop reports on to `protocol`, that of aiohttp, within the limits.

    request: the one in progress, from the call of the middlewares to the end of its response.
    """

    __slots__ = (
        "_blocked_at",
        "_body_bytes",
        "_head_since",
        "_head_timer",
        "_holds",
        "_idle_timer",
        "_limits",
        "_loop",
        "_next_sent",
        "_patience",
        "_protocol",
        "_send_timer",
        "_server",
        "_started",
        "_transport",
        "_unread",
        "request",
    )

    _transport: asyncio.Transport

    def __init__(self, protocol: asyncio.Protocol, server: Connections) -> None:
        self._protocol, self._server, self._limits = protocol, server, server.limits
        self._loop = asyncio.get_running_loop()
        self.request: web.BaseRequest | None = None
        self._started = 0.0
        self._unread = 0  # bytes of heads, and of all that was sent ahead of a response
        self._body_bytes = 0  # bytes that arrived while the body of the request was incomplete
        self._holds = False  # whether reading is paused here, and not by aiohttp
        self._head_since: float | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._blocked_at: float | None = None  # since when the client has to read
        self._patience = server.limits.send_seconds  # in which it has to read up to this:
        self._next_sent = MAX_WRITE

    @property
    def is_idle(self) -> bool:
        """Whether no request, nor any part of one, has arrived and awaits its response."""
        return self.request is None and not self._unread

    @property
    def is_stopping(self) -> bool:
        """Whether to close the connection after the next response."""
        return self._server.is_stopping

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        self._transport = cast(asyncio.Transport, transport)
        is_tls = transport.get_extra_info("sslcontext") is not None
        # In addition to what the kernel buffers.
        self._transport.set_write_buffer_limits(_TLS_BUFFER if is_tls else 0)
        self._server.open.add(self)
        self._protocol.connection_made(transport)
        self._await_head()
        if self.is_stopping:
            self.close_when_idle()

    def data_received(self, data: bytes) -> None:
        """Pass on what has arrived; count what is not part of a body."""
        request = self.request
        if request is None:
            self._unread += len(data)
            if self._head_since is None:
                self._await_head()
        elif request.content.is_eof():
            self._unread += len(data)
        else:
            self._limit_framing(request, len(data))
        self._protocol.data_received(data)
        if self._unread > self._limits.head_bytes:
            self._regulate_reading()

    def eof_received(self) -> bool | None:
        """Close the connection: a client that half-closes it has gone."""
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the request in progress was aborted, if there is one."""
        self._server.open.discard(self)
        for timer in (self._head_timer, self._idle_timer, self._send_timer):
            if timer is not None:
                timer.cancel()
        self._end(None)
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        """Read no further requests until the client reads its responses; limit the time of that."""
        self._protocol.pause_writing()
        self._blocked_at = self._loop.time()
        self._send_timer = self._loop.call_later(self._patience, self._check_reader)
        self._regulate_reading()

    def resume_writing(self) -> None:
        """Continue: the client has read what was sent."""
        self._protocol.resume_writing()
        if self._send_timer is not None and self._blocked_at is not None:
            self._send_timer.cancel()
            self._patience -= self._loop.time() - self._blocked_at
        self._blocked_at = None
        self._renew_patience()
        self._regulate_reading()

    def begin(self, request: web.BaseRequest) -> None:
        """End the limits of a head, as a request has arrived."""
        self.request, self._started = request, perf_counter()
        self._head_since = None
        self._unread = self._body_bytes = 0
        self._patience, self._next_sent = self._limits.send_seconds, MAX_WRITE
        if self._holds:
            self._regulate_reading()

    def finish(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Record the end of a response, unless the connection was lost before."""
        if request is not self.request:  # not valid HTTP: it has begun and ended at once
            self._server.recorder.record(request, response, 0.0)
            return
        self._end(None if self._transport.is_closing() else response)
        if self._unread:
            self._await_head()
        if self._holds:
            self._regulate_reading()
        if self.is_stopping:
            self.close_when_idle()

    def close_when_idle(self) -> None:
        """Close the connection unless a request arrives in time; for a stop."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = self._loop.call_later(
            self._limits.stop_idle_seconds, self._close_if_idle
        )

    def abort(self) -> None:
        """Reset the connection, so that the client does not take a partial response for a whole."""
        reset(self._transport)

    def _end(self, response: web.StreamResponse | None) -> None:
        if self.request is not None:
            seconds = perf_counter() - self._started
            request, self.request = self.request, None
            self._server.recorder.record(request, response, seconds)

    def _await_head(self) -> None:
        """Limit the time of the next head. The timer of an earlier one is used again."""
        self._head_since = self._loop.time()
        if self._head_timer is None:
            seconds = self._limits.arrival_seconds
            self._head_timer = self._loop.call_later(seconds, self._check_head)

    def _check_head(self) -> None:
        self._head_timer = None
        if self._head_since is not None and self.request is None:
            late_at = self._head_since + self._limits.arrival_seconds
            if self._loop.time() >= late_at:
                self._transport.close()
            else:
                self._head_timer = self._loop.call_at(late_at, self._check_head)

    def _limit_framing(self, request: web.BaseRequest, size: int) -> None:
        self._body_bytes += size
        allowed = self._limits.head_bytes + _MAX_FRAMING * request.content.total_bytes
        if self._body_bytes > allowed:
            self._transport.close()

    def _regulate_reading(self) -> None:
        """Pause reading, or continue with it. What aiohttp has paused is left to it."""
        is_ahead = self._unread > self._limits.head_bytes
        if is_ahead and self.request is None:
            self._loop.call_later(_BEGIN_SECONDS, self._refuse_large_head)
        holds = is_ahead or self._blocked_at is not None
        if holds and not self._holds and self._transport.is_reading():
            self._transport.pause_reading()
            self._holds = True
        elif self._holds and not holds:
            self._holds = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _refuse_large_head(self) -> None:
        if self.request is None and self._unread > self._limits.head_bytes:
            self._transport.close()

    def _renew_patience(self) -> None:
        """Give the client time for the next part of the response once it has read the previous."""
        request = self.request
        if request is not None:
            sent = request.writer.output_size - self._transport.get_write_buffer_size()
            if sent >= self._next_sent:
                self._patience = self._limits.send_seconds
                self._next_sent = sent + MAX_WRITE

    def _check_reader(self) -> None:
        self._patience = 0.0
        self._renew_patience()
        if self._patience:
            self._blocked_at = self._loop.time()
            self._send_timer = self._loop.call_later(self._patience, self._check_reader)
        else:
            seconds = self._limits.send_seconds
            _log.info("A client has not read a part of its response in %g s", seconds)
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
        """Record the end of a response."""
        connection = connection_of(request)
        if connection is not None:
            connection.finish(request, response)


def connection_of(request: web.BaseRequest) -> Connection | None:
    """Return the connection of a request; None if it has ended, or another server has made it."""
    transport = request.transport
    protocol = None if transport is None else transport.get_protocol()
    return protocol if isinstance(protocol, Connection) else None
