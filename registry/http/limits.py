"""Limits of size and time on requests and connections."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one request and its connection.

    target_bytes: a longer request target, a path with its query string, is rejected with 400.
    fields_bytes: larger header fields, in total, are rejected with 431. body_bytes: a larger body
    is rejected with 413. arrival_seconds: the time the head, and after it the body, may take to
    arrive; 408 after that. A TLS handshake may take as long. linger_seconds: how long the rest of
    the body of a rejected request is read and discarded, so that the client reads the response
    before the connection closes. idle_seconds: the idle timeout, after which a connection without a
    request is closed. stop_idle_seconds: the same while the service stops, so that a client that
    reuses its connections loses no request; also how long the client may take to confirm the end of
    a TLS connection. send_seconds: how long a client may take to read one part of a response, of at
    most `responses.MAX_WRITE` bytes, before its connection is reset.
    """

    target_bytes: int = 2**17
    fields_bytes: int = 2**16
    body_bytes: int = 2**20
    arrival_seconds: float = 30.0
    linger_seconds: float = 5.0
    idle_seconds: float = 75.0
    stop_idle_seconds: float = 5.0
    send_seconds: float = 60.0
