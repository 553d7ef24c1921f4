"""Runs the reference servers on the same event loop as the service: uvloop."""

from __future__ import annotations

import socket
import ssl

import uvloop
from aiohttp import web


def serve(app: web.Application, certificate: str | None = None, key: str | None = None) -> None:
    """Listen on a free port, print the URL, and serve until a signal.

    certificate, key: the files for TLS; None for plain HTTP.
    """
    tls = None
    if certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        scheme = "https" if tls else "http"
        print(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        web.run_app(
            app,
            sock=listener,
            ssl_context=tls,
            access_log=None,
            print=None,
            shutdown_timeout=1,
            loop=uvloop.new_event_loop(),
        )
