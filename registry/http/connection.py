"""One client connection: everything that aiohttp has no public API for.

The service uses private attributes of aiohttp only here; `tests/http/test_connection.py` fails if a
new version of aiohttp changes one of them.
"""

import asyncio
import logging
import re
from time import perf_counter
from typing import Any, cast

from aiohttp import EMPTY_PAYLOAD, StreamReader, web
from aiohttp.web_protocol import _ErrInfo

from registry.http.app_keys import Limits
from registry.http.error_responses import error_response, reset
from registry.http.request_recorder import RequestRecorder
from registry.http.responses import add_common_headers
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.error_types import HeaderFieldsTooLarge, MalformedRequest, RequestTimeout

_MAX_WAITING = 2
"""Reading pauses while this many requests of the connection wait for the response to another."""

_READ_BUFFER = 2**16
"""Reading pauses when more than twice as many bytes of a body wait. As the event loop reads up to
256,000 at a time, a body that waits takes at most 0.4 MB; with aiohttp's default, 0.8 MB."""

_MAX_PIECE = 2**16
"""Bytes parsed at once. The start of a head that follows a request in them is not counted."""

_TLS_BUFFER = 2**12
"""Bytes that may wait to be sent by TLS. With a lower limit than the session tickets, which wait
after a handshake, the event loop would never read the connection."""

_log = logging.getLogger("registry")


class Connection(web.RequestHandler):
    """Adds time limits, and error documents where a request does not reach the application.

    A connection that its client has half-closed, or whose server stops, ends only after the
    responses to all requests that have arrived on it. recorder: records requests at their end.
    started, body: of the request that was taken last. is_ending: whether it closes after its last
    response. closes_with_client: whether the response has no end, so that the client has left when
    it half-closes the connection.
    """

    __slots__ = (
        "_body_bytes",
        "_half_closed",
        "_head_bytes",
        "_head_timer",
        "_idle_timer",
        "_limits",
        "_recorder",
        "_send_timer",
        "body",
        "closes_with_client",
        "is_ending",
        "started",
    )

    def __init__(self, server: web.Server, limits: Limits, recorder: RequestRecorder) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_seconds,
            lingering_time=limits.linger_seconds,
            max_line_size=limits.target_bytes,
            read_bufsize=_READ_BUFFER,
            # Otherwise, the bodies of rejected requests would be decompressed to be discarded.
            auto_decompress=False,
            access_log=None,  # type: ignore[arg-type] # None turns it off: `record` replaces it
        )
        self._limits = limits
        self._recorder = recorder
        self.started = 0.0  # 0 if there is no request in progress
        self.body: StreamReader = EMPTY_PAYLOAD
        self._body_bytes = 0  # bytes of a body that had arrived when a head was counted last
        self._head_bytes = 0  # since then
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None
        self._max_msg_queue_size, self._msg_queue_resume_size = _MAX_WAITING, 0
        self._half_closed = False  # by the client
        self.is_ending = False
        self.closes_with_client = False

    @property
    def is_idle(self) -> bool:
        """Whether no request, nor any part of one, has arrived and awaits its response."""
        return self._awaits_head and self._head_timer is None

    @property
    def closes_next(self) -> bool:
        """Whether to close an ending connection after the response to the request taken last."""
        # No response is due to a request that its client has not finished before it half-closed.
        return not self._messages or (self._half_closed and not self._messages[0][1].is_eof())

    def stop(self) -> None:
        """Close the connection after its last response, or if no request arrives in time."""
        self.is_ending = True
        self._close_when_idle()

    def abort(self) -> None:
        """Reset the connection, so that the client does not take a partial response for a whole."""
        if self.transport is not None:
            reset(self.transport)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve the connection."""
        super().connection_made(transport)
        # A cast, as the transports of uvloop are not instances of those of asyncio.
        sending = cast(asyncio.WriteTransport, transport)
        # In addition to what the kernel buffers.
        sending.set_write_buffer_limits(0 if self.ssl_context is None else _TLS_BUFFER)

    def pause_writing(self) -> None:
        """Read no further requests until the client reads its responses; limit the time of that."""
        super().pause_writing()
        if self.transport:
            self.transport.pause_reading()
            self._send_timer = asyncio.get_running_loop().call_later(
                self._limits.send_seconds, self._abort_slow_reader
            )

    def resume_writing(self) -> None:
        """Continue: the client has read enough."""
        super().resume_writing()
        if self._send_timer is not None:
            self._send_timer.cancel()
        is_paused = self._reading_paused or self._buffer_paused or self._half_closed
        if self.transport is not None and not is_paused:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, unless a head was refused."""
        for start in range(0, len(data) or 1, _MAX_PIECE):
            if self._parser is None:
                return
            piece, before = data[start : start + _MAX_PIECE], self._request_count
            super().data_received(piece)
            if self._request_count == before:
                self._limit_head(len(piece))
            else:
                self._end_head()

    def eof_received(self) -> bool:  # type: ignore[override] # aiohttp closes the connection
        """Keep the connection open while responses are due: its client may have half-closed it.

        RFC 9112, 9.6. Whether it has closed it as a whole shows only when a response is sent. No
        response is due to a request that has not arrived as a whole. The event loop cannot send
        anything on a TLS connection that its client has closed.
        """
        request = self._current_request
        is_incomplete = request is not None and not request.content.is_eof()
        has_request = self.started or self._messages
        if not has_request or is_incomplete or self.ssl_context is not None:
            return False
        if self.closes_with_client:
            return False
        self._half_closed = self.is_ending = True
        return True

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the request in progress, if there is one."""
        for timer in (self._head_timer, self._idle_timer, self._send_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def record(self, request: web.BaseRequest, response: web.StreamResponse | None) -> None:
        """Record the end of the request in progress. response: None if not sent as a whole."""
        self._recorder.record(request, response, perf_counter() - self.started)
        self.started = 0.0

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the response, or the rest of it; the last one says that the connection closes."""
        if self.is_ending and self.closes_next:
            if self._half_closed or not resp.prepared:
                resp.force_close()
            else:  # the client does not know yet, and may send another request
                self._close_when_idle()
        try:
            response, is_lost = await super().finish_response(request, resp, start_time)
        except BaseException:  # cancelled, as the client has disconnected
            self.record(request, None)
            raise
        self.record(request, None if is_lost else response)
        if self._parser is None and not (self._messages or self._half_closed or is_lost):
            # The client reads the response only if the connection stays open while it still sends.
            await asyncio.sleep(self._limits.linger_seconds)
        return response, is_lost

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the error document for a malformed request, which no middleware sees."""
        if status == 400:
            # What follows quotes the request, which may contain an access token.
            reason = re.split(r"\n|: [a-z(]*['\"]", message or "", maxsplit=1)[0].rstrip(":. ")
            exc = MalformedRequest(f"The request is not valid HTTP: {reason}.")
        if isinstance(exc, RequestTimeout):
            self.started -= self._limits.arrival_seconds  # it began with the first byte of its head
        error = exc if isinstance(exc, Exception) else RuntimeError(message)
        response = error_response(request, error)
        add_common_headers(request, response)
        return response

    def log_exception(self, *args: Any, exc_info: Any = None, **kwargs: Any) -> None:
        """Log a defect of the service; broken encoding of a body is the client's."""
        if not isinstance(exc_info, web.RequestPayloadError):
            super().log_exception(*args, exc_info=exc_info, **kwargs)

    def _end_head(self) -> None:
        """End the limits of a head, as a request has arrived."""
        self._head_bytes, self._body_bytes = 0, self._messages[-1][1].total_bytes
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        # aiohttp queues broken chunked encoding in a body as another (malformed) request, and
        # leaves the view waiting for the rest of the body.
        request = self._current_request
        is_broken = isinstance(self._messages[-1][0], _ErrInfo)
        if is_broken and request is not None and not request.content.is_eof():
            request.content.set_exception(web.RequestPayloadError())

    def _limit_head(self, size: int) -> None:
        """Limit the size and the time of a head that may be arriving.

        aiohttp limits each field and their number, which allows a head of 1 MB, and an incomplete
        head takes twice its size in memory. Trailers of a body are counted too.
        """
        limits = self._limits
        if self._head_timer is None and self._awaits_head:
            timeout = RequestTimeout("head", limits.arrival_seconds)
            loop = asyncio.get_running_loop()
            self._head_timer = loop.call_later(limits.arrival_seconds, self._refuse, timeout)
        body = self._messages[-1][1] if self._messages else self.body
        if body.total_bytes != self._body_bytes:  # it is not a head that is arriving
            self._head_bytes, self._body_bytes = 0, body.total_bytes
            return
        self._head_bytes += size
        if self._head_bytes > limits.target_bytes + limits.fields_bytes:
            self._refuse(HeaderFieldsTooLarge(limits.fields_bytes))

    def _refuse(self, error: ApiError) -> None:
        """Respond to a head that is not complete, after the requests before it."""
        self._parser = None  # its memory is free while the client reads the response
        self._messages.append((_ErrInfo(error.status, error, ""), EMPTY_PAYLOAD))
        self._request_count += 1
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _close_when_idle(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(
            self._limits.stop_idle_seconds, self._close_if_idle
        )

    def _close_if_idle(self) -> None:
        if self.is_idle:
            self.force_close()

    @property
    def _awaits_head(self) -> bool:
        """Whether all requests whose head has arrived have been responded to."""
        if self._waiter is None:
            return self._request_count == 0  # the connection is new
        return not self._waiter.done()

    def _abort_slow_reader(self) -> None:
        _log.info("A client has not read a part of its response in %g s", self._limits.send_seconds)
        self.abort()
