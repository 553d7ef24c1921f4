"""The HTTP server: runs an application on the connections of the service."""

from collections.abc import Awaitable

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11

from registry.http.app_keys import LIMITS
from registry.http.connection import Connection
from registry.http.error_responses import error_response
from registry.http.limits import Limits
from registry.jsonapi.errors import ExpectationFailed


class Runner(web.ServerRunner):
    """Starts and serves an application. shutdown_timeout: seconds that open requests may take."""

    def __init__(self, app: web.Application, *, shutdown_timeout: float = 60.0) -> None:
        self._app = app
        self._connections = _Server(app[LIMITS])
        super().__init__(self._connections, shutdown_timeout=shutdown_timeout)

    async def setup(self) -> None:
        """Start the application. Raises StartError if it cannot start."""
        starter = web.AppRunner(self._app)
        await starter.setup()
        assert starter.server is not None  # noqa: S101 - set up
        self._connections.serve(starter.server)
        await super().setup()

    async def shutdown(self) -> None:
        """Send the application the signal that the service stops."""
        await self._app.shutdown()

    async def cleanup(self) -> None:
        """Stop listening, let open requests finish, then release the resources of the app."""
        await super().cleanup()
        await self._app.cleanup()


class _Server(web.Server):
    """Creates the connections of one application."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(self._handle)
        self._limits = limits

    def serve(self, app_server: web.Server) -> None:
        """Pass requests to the server of the application, which exists once that has started."""
        self._handle_by_app = app_server.request_handler
        self.request_factory = app_server.request_factory

    def __call__(self) -> web.RequestHandler:
        return Connection(self, self._limits)

    def _handle(self, request: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        # aiohttp checks `Expect` before any middleware; what it raises would be sent as text.
        expected = request.headers.get(hdrs.EXPECT)
        if expected and request.version >= HttpVersion11 and expected.lower() != "100-continue":
            return _reject_expectation(request)
        return self._handle_by_app(request)


async def _reject_expectation(request: web.BaseRequest) -> web.StreamResponse:
    return error_response(request, ExpectationFailed())
