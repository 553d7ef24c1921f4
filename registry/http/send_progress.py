"""How fast a client reads its responses."""

from dataclasses import dataclass
from time import monotonic


@dataclass(slots=True)
class SendProgress:
    """What a client has read while the service waited for it.

    seconds: how long it was waited for, in several parts if its responses have several. sent: the
    bytes that it has acknowledged in this time.
    """

    seconds: float = 0.0
    sent: int = 0
    _since: float | None = None
    _unsent: int = 0

    def start(self, unsent: int) -> None:
        """Begin to wait. unsent: the bytes that the client has not acknowledged."""
        self._since, self._unsent = monotonic(), unsent

    def pause(self, unsent: int) -> None:
        """Add what has happened since `start`."""
        if self._since is not None:
            self.seconds += monotonic() - self._since
            self.sent += self._unsent - unsent
            self._since = None
