"""One client connection: everything that aiohttp has no public API for.

The service uses private attributes of aiohttp only here; `tests/http/test_connection.py` fails if a
new version of aiohttp changes one of them.
"""

import asyncio
from contextlib import suppress
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import _ErrInfo

from registry.http.error_responses import error_response, raw_error_response
from registry.http.limits import Limits
from registry.jsonapi.errors import MalformedRequest, RequestTimeout


class Connection(web.RequestHandler):
    """Adds time limits and error documents where a request does not reach the application."""

    __slots__ = ("_head_timer", "_limits")

    def __init__(self, server: web.Server, limits: Limits) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_seconds,
            lingering_time=limits.linger_seconds,
            access_log=None,  # type: ignore[arg-type] # None turns it off
        )
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, and limit the time until a head is complete."""
        # `_close` is set while the service stops: aiohttp then discards all input, even the rest
        # of a body that the request in progress still waits for.
        if self._close and self._request_in_progress and self._parser is not None:
            with suppress(HttpProcessingError):
                self._parser.feed_data(data)
            return
        super().data_received(data)
        self._fail_broken_body()
        # `_waiter` is pending while the connection waits for a whole head: aiohttp has no limit on
        # the time between the first byte of a head and the last.
        if self._waiter is None or self._waiter.done():
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(
                self._limits.arrival_seconds, self._reject_slow_head
            )

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the request in progress, if there is one."""
        self._stop_timer()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the error document for a malformed request, which no middleware sees."""
        if isinstance(exc, ConnectionError):
            raise exc  # the connection is closed without a response
        if status == 400:
            reason = (message or "").partition("\n")[0].rstrip(":. ")
            exc = MalformedRequest(f"The request is not valid HTTP: {reason}.")
        return error_response(request, exc if isinstance(exc, Exception) else RuntimeError(message))

    def log_exception(self, *args: Any, exc_info: Any = None, **kwargs: Any) -> None:
        """Log a defect of the service; a body that cannot be decoded is the client's."""
        if not isinstance(exc_info, web.RequestPayloadError):
            super().log_exception(*args, exc_info=exc_info, **kwargs)

    def _fail_broken_body(self) -> None:
        # aiohttp queues broken chunked encoding in a body as another (malformed) request, as
        # `_ErrInfo` in `_messages`, and leaves the view waiting for the rest of the body.
        request = self._current_request
        if request is None or request.content.is_eof() or not self._messages:
            return
        if isinstance(self._messages[-1][0], _ErrInfo):
            request.content.set_exception(web.RequestPayloadError())

    def _reject_slow_head(self) -> None:
        if self.transport is not None:
            seconds = self._limits.arrival_seconds
            self.transport.write(raw_error_response(RequestTimeout("head", seconds)))
        self.force_close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
