"""What the driver does, in metrics: the time of commands, and the connections of the pool."""

from collections.abc import Awaitable
from threading import Lock
from time import perf_counter
from typing import TypeVar

from pymongo import monitoring

from registry.metrics.families import COMMANDS, CONNECTIONS, CONNECTIONS_IN_USE, Sample

_Reply = TypeVar("_Reply")


async def observed(command: str, reply: Awaitable[_Reply]) -> _Reply:
    """Return the reply to a command, or raise its error, and observe how long it takes.

    A CommandListener would also observe background tasks and cursors, but it is called in Python
    for every event: reading one person took about a tenth more CPU time.
    """
    begin, outcome = perf_counter(), "failure"
    try:
        result = await reply
        outcome = "success"
        return result
    finally:
        COMMANDS.observe(COMMANDS.sample(command, outcome), perf_counter() - begin)


class PoolSize(monitoring.ConnectionPoolListener):
    """Counts the connections of the pool, when the driver calls it on its threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open = CONNECTIONS.sample()
        self._in_use = CONNECTIONS_IN_USE.sample()

    def _add(self, sample: Sample, difference: int) -> None:
        with self._lock:
            sample[0] += difference

    def connection_created(self, _: monitoring.ConnectionCreatedEvent) -> None:
        """Count a connection that the pool opens."""
        self._add(self._open, 1)

    def connection_closed(self, _: monitoring.ConnectionClosedEvent) -> None:
        """Stop counting a connection."""
        self._add(self._open, -1)

    def connection_checked_out(self, _: monitoring.ConnectionCheckedOutEvent) -> None:
        """Count a connection that a command uses."""
        self._add(self._in_use, 1)

    def connection_checked_in(self, _: monitoring.ConnectionCheckedInEvent) -> None:
        """Stop counting a connection that a command has used."""
        self._add(self._in_use, -1)

    def connection_ready(self, _: monitoring.ConnectionReadyEvent) -> None:
        """Do nothing."""

    def connection_check_out_started(self, _: monitoring.ConnectionCheckOutStartedEvent) -> None:
        """Do nothing."""

    def connection_check_out_failed(self, _: monitoring.ConnectionCheckOutFailedEvent) -> None:
        """Do nothing."""

    def pool_created(self, _: monitoring.PoolCreatedEvent) -> None:
        """Do nothing."""

    def pool_ready(self, _: monitoring.PoolReadyEvent) -> None:
        """Do nothing."""

    def pool_cleared(self, _: monitoring.PoolClearedEvent) -> None:
        """Do nothing."""

    def pool_closed(self, _: monitoring.PoolClosedEvent) -> None:
        """Do nothing."""
