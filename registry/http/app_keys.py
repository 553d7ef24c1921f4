"""What views, middlewares and the server share: limits of size and time, and the keys of others."""

from asyncio import Event
from dataclasses import dataclass

from aiohttp import web

from registry.http.addresses import Addresses
from registry.http.deadlines import Deadlines
from registry.model.graph import Graph
from registry.settings import Settings
from registry.storage import Repository


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one request and its connection.

    target_bytes, head_bytes, body_bytes: of path and query string, of the head with these, of the
    body. arrival_seconds: for a body, and for a TLS handshake. linger_seconds: how long the rest of
    a rejected body is discarded, so that the client reads the response. idle_seconds: until the
    next head has arrived; then the connection is closed. stop_idle_seconds: the same during a stop,
    so that clients that reuse connections lose no request. send_seconds: for the client to read one
    part of a response, of at most `sending.MAX_WRITE` bytes. waiting_bytes: of large bodies that
    clients have not read yet, in total; a client may have half of them.
    """

    target_bytes: int = 2**17
    head_bytes: int = 3 * 2**16
    body_bytes: int = 2**20
    arrival_seconds: float = 30.0
    linger_seconds: float = 5.0
    idle_seconds: float = 75.0
    stop_idle_seconds: float = 5.0
    send_seconds: float = 60.0
    waiting_bytes: int = 2**27


DEADLINES = web.AppKey("deadlines", Deadlines)
GRAPH = web.AppKey("graph", Graph)

LIMITS = web.AppKey("limits", Limits)
NOTICE = web.AppKey("notice", str)
"""What is reported when the service is ready, beside its URLs; may be empty."""

ADDRESSES = web.AppKey("addresses", Addresses)
REPOSITORY = web.AppKey("repository", Repository)
SETTINGS = web.AppKey("settings", Settings)
STOPPING = web.AppKey("stopping", Event)
"""Set when the service begins to stop."""
