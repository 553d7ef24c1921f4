"""The service in one process: the application on the HTTP server, until it is cancelled."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable

from aiohttp import web

from registry.app import create_app
from registry.http.app_keys import UI_PATH
from registry.http.server import Runner
from registry.openapi import swagger_ui
from registry.settings import Settings

FINISH_SECONDS = 30.0
"""How long requests under way may take to finish when the service ends."""


async def serve(
    settings: Settings, listen: Callable[[], socket.socket], announce: Callable[[str], None]
) -> None:
    """Serve on the socket that `listen` returns, until cancelled; then finish what is under way.

    announce: takes one line that says where the service is, once it is ready. Raises StartError
    if the service cannot start.
    """
    runner = Runner(create_app(settings), shutdown_timeout=FINISH_SECONDS)
    try:
        await runner.setup()
        tune_gc()
        listener = listen()
        await web.SockSite(runner, listener).start()
        url = settings.public_url or _url(listener)
        announce(
            f"Registry ready: API {url}/persons, "
            f"Swagger UI {url}{UI_PATH}/ (version {swagger_ui.version()})"
        )
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def tune_gc() -> None:
    """Let the garbage collector leave alone what the start has made, and look less often.

    An answer is made of hundreds of objects, of which none is part of a cycle: by default the
    collector looks through them at each large answer, which takes up to a fifth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _url(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
