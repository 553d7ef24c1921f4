"""Runs the reference servers on the same event loop as the service: uvloop."""

from __future__ import annotations

import socket

import uvloop
from aiohttp import web


def serve(app: web.Application) -> None:
    """Listen on a free port, print the URL, and serve until a signal."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        web.run_app(
            app,
            sock=listener,
            access_log=None,
            print=None,
            shutdown_timeout=1,
            loop=uvloop.new_event_loop(),
        )
