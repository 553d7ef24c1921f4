"""How much of a request the service waits for and reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request.

    body_bytes: a longer body is refused with 413. arrival_seconds: a head, and after it a body,
    that takes longer to arrive is refused with 408. linger_seconds: how long the rest of a refused
    body is read, so that the client gets to see the answer. idle_seconds: how long a connection
    may stay open with no request on it.
    """

    body_bytes: int = 2**20
    arrival_seconds: float = 30.0
    linger_seconds: float = 5.0
    idle_seconds: float = 75.0
