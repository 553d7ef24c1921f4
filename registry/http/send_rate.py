"""The limit on how slowly a client may read its responses."""

import asyncio
import logging
from dataclasses import dataclass
from time import monotonic

from registry.http.limits import Limits
from registry.http.transports import reset, unacknowledged

_log = logging.getLogger("registry")


class SendRateLimit:
    """Resets a connection whose client was waited for and has read too little.

    limits: `send_seconds` and `send_rate` apply.
    """

    __slots__ = ("_limits", "_progress", "_timer")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._progress = _Progress()
        self._timer: asyncio.Handle | None = None

    def start(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the client, as the transport has buffered as much as it may."""
        # Soon, as the transport does not count yet what it could not write at once.
        self._timer = asyncio.get_running_loop().call_soon(self._wait, transport)

    def pause(self, transport: asyncio.Transport) -> None:
        """Stop waiting, as the client has read enough for now."""
        self.stop()
        self._progress.pause(unacknowledged(transport))

    def stop(self) -> None:
        """Stop waiting, as the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, transport: asyncio.Transport) -> None:
        self._progress.start(unacknowledged(transport))
        remaining = self._limits.send_seconds - self._progress.seconds
        self._timer = asyncio.get_running_loop().call_later(remaining, self._check, transport)

    def _check(self, transport: asyncio.Transport) -> None:
        progress, limits = self._progress, self._limits
        progress.pause(unacknowledged(transport))
        if progress.sent < limits.send_rate * limits.send_seconds:
            text = "A client has read only %d bytes of its responses in %.2g s"
            _log.info(text, progress.sent, progress.seconds)
            reset(transport)
        else:
            self._progress = _Progress()
            self._wait(transport)


@dataclass(slots=True)
class _Progress:
    """What a client has read while the service waited for it.

    seconds: how long it was waited for, in several parts if its responses have several. sent: the
    bytes that it has acknowledged in this time.
    """

    seconds: float = 0.0
    sent: int = 0
    _since: float | None = None
    _unacknowledged: int = 0

    def start(self, count: int) -> None:
        """Begin to wait. count: the bytes that the client has not acknowledged."""
        self._since, self._unacknowledged = monotonic(), count

    def pause(self, count: int) -> None:
        """Add what has happened since `start`."""
        if self._since is not None:
            self.seconds += monotonic() - self._since
            self.sent += self._unacknowledged - count
            self._since = None
