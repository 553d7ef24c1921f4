"""The server of /metrics on a port of its own."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from registry.http.metrics_endpoint import Scrape, metrics_app
from registry.http.server import Runner
from registry.http.service_urls import METRICS_PATH
from registry.processes.listeners import url_of
from registry.settings import Settings

_FINISH_SECONDS = 1.0


@asynccontextmanager
async def metrics_server(
    settings: Settings,
    listener: socket.socket | None,
    scrape: Scrape,
    announce: Callable[[str], None],
) -> AsyncIterator[Callable[[str], None]]:
    """Serve the metrics on the socket, if there is one.

    Yields the function that announces a line: with the URL of the metrics, if they are served.
    """
    if listener is None:
        yield announce
        return
    is_logged = settings.access_log == "on"
    runner = Runner(
        metrics_app(settings, scrape), shutdown_timeout=_FINISH_SECONDS, access_log=is_logged
    )
    await runner.setup()
    try:
        url = url_of("http", listener) + METRICS_PATH
        await runner.listen(listener)
        yield lambda line: announce(f"{line}. Metrics: {url}")
    finally:
        await runner.cleanup()
