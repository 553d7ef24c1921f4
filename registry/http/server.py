"""The HTTP server: aiohttp's, with error documents where no view was reached."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import _ErrInfo

from registry.http.app_keys import LIMITS
from registry.http.error_responses import error_response, raw_error_response
from registry.http.limits import Limits
from registry.jsonapi.errors import MalformedRequest, RequestTimeout


class Runner(web.AppRunner):
    """Runs the application on a server that answers even what is no HTTP as JSON:API asks."""

    def __init__(self, app: web.Application, **kwargs: Any) -> None:
        limits = app[LIMITS]
        super().__init__(
            app,
            access_log=None,
            keepalive_timeout=limits.idle_seconds,
            lingering_time=limits.linger_seconds,
            **kwargs,
        )

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _Server(
            server.request_handler,
            request_factory=server.request_factory,
            limits=self.app[LIMITS],
            # aiohttp has no public way to choose the protocol.
            **server._kwargs,
        )


class _Server(web.Server):
    def __init__(self, *args: Any, limits: Limits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, self._limits, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ("_head_timer", "_limits")

    def __init__(self, server: web.Server, limits: Limits, **kwargs: Any) -> None:
        super().__init__(server, **kwargs)
        self._limits = limits
        self._head_timer: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._close and self._request_in_progress and self._parser is not None:
            # aiohttp drops what arrives while the service ends, even the rest of a body under way.
            with suppress(HttpProcessingError):
                self._parser.feed_data(data)
            return
        super().data_received(data)
        self._fail_broken_body()
        # aiohttp has no public word for it: the next request has begun, but its head is not whole.
        waiting = self._waiter is not None and not self._waiter.done()
        if not waiting:
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(
                self._limits.arrival_seconds, self._give_up_on_head
            )

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Go on reading, which aiohttp asks for after each part of a body, paused or not."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _fail_broken_body(self) -> None:
        # What cannot be parsed behind the head of a request is its body; aiohttp takes it for
        # another request and leaves the reader of the body waiting.
        request = self._current_request
        if request is None or request.content.is_eof() or not self._messages:
            return
        if isinstance(self._messages[-1][0], _ErrInfo):
            request.content.set_exception(web.RequestPayloadError())

    def log_exception(self, *args: Any, exc_info: Any = None, **kwargs: Any) -> None:
        """Log a defect, which a body that is not encoded as it says is not."""
        if not isinstance(exc_info, web.RequestPayloadError):
            super().log_exception(*args, exc_info=exc_info, **kwargs)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """DocumentResponse what a view has raised, and what is no HTTP."""
        if isinstance(exc, ConnectionError):
            raise exc  # the client hung up, which is no defect
        if request.writer.output_size > 0:
            raise ConnectionError("The response has begun; it cannot become an error.")
        if status == 400:
            reason = (message or "").partition("\n")[0].rstrip(":. ")
            exc = MalformedRequest(f"The request cannot be read as HTTP: {reason}.")
        return error_response(request, exc or sys.exception() or RuntimeError(message))

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """DocumentResponse what aiohttp refuses, such as a path that does not exist."""
        if resp.status >= 400 and isinstance(resp, web.HTTPException):
            resp = error_response(request, resp)
        return await super().finish_response(request, resp, start_time)

    def _give_up_on_head(self) -> None:
        if self.transport is not None:
            seconds = self._limits.arrival_seconds
            self.transport.write(raw_error_response(RequestTimeout("head", seconds)))
        self.force_close()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
