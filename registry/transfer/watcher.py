"""Follows the change feed of a service, and continues where it has stopped."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from registry.private_files import new_file
from registry.transfer.client import RESTART, Client, TransferError

Deliver = Callable[[str, bytes], Awaitable[None]]
"""Takes the id of a change, and the change as JSON; returns when it is delivered."""

_MIN_DELAY, _MAX_DELAY = 1.0, 30.0
"""Seconds before connecting again, which double as long as nothing arrives."""


class PositionFile:
    """The position after the last change that was delivered. Raises TransferError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> str | None:
        """Return the position, None if there is no file yet."""
        if not self._path.exists() and self._path.parent.is_dir():
            return None
        with self._explained():
            position = self._path.read_text().strip()
        if not position:  # the service would begin at the present, and leave changes out
            raise TransferError(f"{self._path} has no position{RESTART}")
        return position

    def store(self, position: str) -> None:
        """Replace the position: after a crash the file has this one, or the one before."""
        with self._explained(), new_file(self._path, replaces=True) as file:
            file.write(f"{position}\n".encode())

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TransferError(f"--position-file: {self._path}: {error.strerror}") from None


async def watch(
    client: Client, types: Iterable[str], deliver: Deliver, file: PositionFile | None
) -> NoReturn:
    """Deliver all changes in their order, at least once, again after a crash.

    The last change of a transaction has the id of its position, others one with a number added:
    they have the same ids when they are delivered again. file: None to begin at the present. If the
    service refuses, raises TransferError, or Gone for an expired position; otherwise it connects
    again. Raises what `deliver` raises.
    """
    position, delay = file.load() if file else None, _MIN_DELAY
    while True:
        changes: list[bytes] = []  # of a transaction that has not arrived as a whole
        async for event in client.follow(types, position):
            delay = _MIN_DELAY
            if event.is_change:
                changes.append(event.data)
            if not event.id:
                continue
            for number, change in enumerate(changes[:-1], 1):
                await deliver(f"{event.id}-{number}", change)
            for change in changes[-1:]:
                await deliver(event.id, change)
            changes, position = [], event.id
            if file:
                file.store(position)
        await asyncio.sleep(delay)
        delay = min(2 * delay, _MAX_DELAY)
