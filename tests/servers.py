"""Test servers on the runner of the service, for `aiohttp_client`."""

import socket
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from aiohttp.typedefs import StrOrURL
from yarl import URL

from registry.http.server import Runner


class Server(TestServer):
    """Serves an application on a runner that `new_runner` returns."""

    def __init__(
        self, app: web.Application, new_runner: Callable[[web.Application], Runner]
    ) -> None:
        super().__init__(app)
        self._new_runner = new_runner

    async def start_server(self, *_: Any, **__: Any) -> None:
        """Start the service on a free port."""
        if self.runner is None:
            self.runner = runner = self._new_runner(self.app)
            await runner.setup()
            listener = socket.create_server((self.host, 0))
            await runner.listen(listener)
            self.port = listener.getsockname()[1]

    def make_url(self, path: StrOrURL) -> URL:
        """Return the URL of a path."""
        return URL(f"http://{self.host}:{self.port}").join(URL(path))
