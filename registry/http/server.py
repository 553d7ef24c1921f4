"""The HTTP server: runs an application on the connections of the service, also with TLS."""

import asyncio
import logging
import select
import socket
import ssl
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NoReturn, cast

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11
from cryptography import x509

from registry.http.app_keys import ADDRESSES, LIMITS
from registry.http.connection import Connection
from registry.http.request_recorder import RequestRecorder
from registry.program import InvalidSetting
from registry.settings import Settings, flag

_NOTICE_SECONDS = 0.1
"""A stop that takes longer says what it waits for."""

_CANCEL_SECONDS = 1.0
"""How long requests may still take after their connections have been reset."""

_ACCEPT_SECONDS = 1.0

_BACKLOG = 128
"""Connections that the kernel establishes before the event loop accepts them. With 2,048, some
clients under overload wait for five seconds after they have connected."""

_MAX_KEPT_TARGET = 2**10
"""Characters of a target whose URL is shared with later requests for the same target."""

_log = logging.getLogger("registry")


class Runner(web.ServerRunner):
    """Starts and serves an application. shutdown_timeout: seconds that open requests may take."""

    def __init__(
        self, app: web.Application, *, shutdown_timeout: float = 60.0, access_log: bool = False
    ) -> None:
        self._app = app
        self._http_server = _Server(app, RequestRecorder(app[ADDRESSES] if access_log else None))
        self._limits = app[LIMITS]
        self._listening: dict[socket.socket, asyncio.Server] = {}
        self._finish_seconds = shutdown_timeout
        super().__init__(self._http_server, shutdown_timeout=_CANCEL_SECONDS)

    async def setup(self) -> None:
        """Start the application. Raises StartError if it cannot start."""
        starter = web.AppRunner(self._app)
        await starter.setup()
        assert starter.server is not None  # noqa: S101 - set up
        self._http_server.serve(starter.server)
        await super().setup()

    async def listen(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Serve on a socket that listens already. tls: None for plain HTTP."""
        # A site of aiohttp would not pass the time limits of TLS on.
        options: dict[str, Any] = {}
        if tls is not None:
            options["ssl"] = tls
            options["ssl_handshake_timeout"] = self._limits.arrival_seconds
            options["ssl_shutdown_timeout"] = self._limits.stop_idle_seconds
        loop = asyncio.get_running_loop()
        self._listening[listener] = await loop.create_server(
            self._http_server, sock=listener, backlog=_BACKLOG, **options
        )

    @property
    def requests_in_progress(self) -> int:
        """The number of requests whose response has not ended."""
        return sum(not connection.is_idle for connection in self._http_server.open_connections)

    async def shutdown(self) -> None:
        """Do nothing: `cleanup` sends the signal earlier than aiohttp would."""

    async def cleanup(self) -> None:
        """Announce the stop, stop listening, let open requests finish, release the resources.

        Connections stay open until a response with `Connection: close`, or until they have been
        idle for a while; those that still have a request in the end are reset.
        """
        if self.server is not None:  # the application has started
            await self._app.shutdown()
        while self._listening:
            listener, server = self._listening.popitem()
            await _accept_established(listener)
            server.close()
        self._http_server.stop()
        if not await self._all_closed(_NOTICE_SECONDS):
            busy = self.requests_in_progress
            _log.info(
                "Stopping: waiting up to %g s for open requests: %d, idle connections: %d; a "
                "second Ctrl-C exits at once",
                self._finish_seconds,
                busy,
                len(self._http_server.open_connections) - busy,
            )
            await self._all_closed(self._finish_seconds - _NOTICE_SECONDS)
        for connection in self._http_server.open_connections:
            connection.abort()
        await super().cleanup()
        await self._app.cleanup()

    async def _all_closed(self, within: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + within, 0.001
        while self._http_server.open_connections and loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)
        return not self._http_server.open_connections


async def _accept_established(listener: socket.socket) -> None:
    """Accept the connections that clients have established, which closing would reset."""
    listener.listen(1)  # keeps further ones from being established
    pending = select.poll()
    pending.register(listener, select.POLLIN)
    with suppress(TimeoutError):
        async with asyncio.timeout(_ACCEPT_SECONDS):
            while pending.poll(0):  # noqa: ASYNC110 - the kernel sets no event
                await asyncio.sleep(0)  # the event loop accepts


class _Server(web.Server):
    """Creates the connections of one application."""

    def __init__(self, app: web.Application, recorder: RequestRecorder) -> None:
        super().__init__(self._handle, handler_cancellation=True)
        self._limits = app[LIMITS]
        self._recorder = recorder
        self._is_stopping = False

    @property
    def open_connections(self) -> list[Connection]:
        """The connections that clients have opened, or that still have a request in progress."""
        return [conn for conn in self.connections if isinstance(conn, Connection)]

    def serve(self, app_server: web.Server) -> None:
        """Pass requests to the server of the application, which exists once that has started."""
        self._handle_by_app = app_server.request_handler
        self.request_factory = self._new_request

    def stop(self) -> None:
        """Close each connection, also one that is accepted later, after its last response."""
        self._is_stopping = True
        for connection in self.open_connections:
            connection.stop()

    def __call__(self) -> web.RequestHandler:
        return Connection(self, self._limits, self._recorder)

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Register a connection: with TLS, once its handshake is complete."""
        super().connection_made(handler, transport)
        if self._is_stopping and isinstance(handler, Connection):
            handler.stop()

    def _new_request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.Request:
        protocol.started, protocol.body = perf_counter(), payload
        # A stream sends its own head, so `Connection: close` is decided when the request begins.
        # After a chunked body, aiohttp takes the last trailer for a field of the next request,
        # which may be that of another client behind a proxy.
        if message.chunked or (protocol.is_ending and protocol.closes_next):
            message = message._replace(should_close=True)
        # yarl keeps each of the last URLs with its parsed query, which takes fifty times its size.
        if len(message.path) > _MAX_KEPT_TARGET:
            message = message._replace(url=copy(message.url))
        # The response has the version of its request; the parser takes 0.9 and 2.0 as well.
        if message.version is not HttpVersion11 and message.version != HttpVersion10:
            message = message._replace(version=HttpVersion11, should_close=True)
        return web.Request(message, payload, protocol, writer, task, asyncio.get_running_loop())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response of the application."""
        try:
            return await self._handle_by_app(request)
        except asyncio.CancelledError:
            _connection(request).record(request, None)
            raise


def _connection(request: web.BaseRequest) -> Connection:
    return cast(Connection, request.protocol)


class Certificate:
    """The certificate and private key of the settings. context: uses those loaded last."""

    def __init__(self, settings: Settings) -> None:
        """Load the files. Raises InvalidSetting if they are not usable."""
        assert settings.tls_certificate and settings.tls_key  # noqa: S101, PT018 - set together
        self._files = settings.tls_certificate, settings.tls_key
        self._loaded = self.context = self._load()
        # Loaded into the same context, a certificate with another type of key would not replace the
        # previous one: each client would get the one that it prefers. OpenSSL calls this in every
        # handshake, also of clients that name no server.
        self.context.sni_callback = self._use_loaded

    def reload(self) -> None:
        """Use what the files contain now for new connections, if it is usable; log the result."""
        try:
            self._loaded = self._load()
        except (InvalidSetting, OSError) as error:
            _log.error("The previous TLS certificate remains in use: %s", error)
        else:
            _log.info("The TLS certificate was reloaded")

    def _use_loaded(self, handshake: ssl.SSLObject, *_: object) -> None:
        handshake.context = self._loaded

    def _load(self) -> ssl.SSLContext:
        names = flag("tls_certificate"), flag("tls_key")
        for name, path in zip(names, self._files, strict=True):
            try:
                path.read_bytes()
            except OSError as error:
                raise InvalidSetting(f"{name}: cannot read {path} ({error.strerror})") from error
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(*self._files, _refuse)
            certificate, *_ = x509.load_pem_x509_certificates(self._files[0].read_bytes())
        except (ssl.SSLError, ValueError) as error:
            # OpenSSL gives no reason if a file has none of them.
            reason = (getattr(error, "reason", None) or "no valid PEM").lower().replace("_", " ")
            raise InvalidSetting(f"{' and '.join(names)} are not usable: {reason}") from error
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not begin <= datetime.now(UTC) <= end:
            _log.warning("%s is valid only from %s to %s", self._files[0], begin, end)
        return context


def _refuse() -> NoReturn:
    """Refuse a key with a passphrase, for which OpenSSL would ask on the terminal."""
    raise InvalidSetting(f"{flag('tls_key')}: the private key is encrypted; remove its passphrase")
