"""Ports on which programs of the tests listen."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress

_PORTS = range(20_000, 32_768)
"""Below those from which Linux takes the ports of connections and of unnamed listeners: no other
process takes one before the program of a test listens on it."""


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    while True:
        port = secrets.choice(_PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
