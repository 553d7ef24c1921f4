"""A failure of the database, which ends the service."""

import asyncio
from typing import NoReturn

from registry.start_error import StartError


class DatabaseFailure:
    """Passes a failure that a thread reports to the event loop in which this was created."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reasons: asyncio.Queue[str] = asyncio.Queue()

    def report(self, reason: str) -> None:
        """Report a failure; may be called on any thread."""
        self._loop.call_soon_threadsafe(self._reasons.put_nowait, reason)

    async def wait(self) -> NoReturn:
        """Wait for a failure. Raises StartError with its reason."""
        raise StartError(await self._reasons.get())
