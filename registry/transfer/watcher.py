"""Follows the change feed of a service, and continues where it has stopped."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from registry.client import Client
from registry.private_files import new_file
from registry.program import StartError

Deliver = Callable[[str, bytes], Awaitable[None]]
"""Takes the id of a change, and the change as JSON; returns when it is delivered."""

RESTART = ": read the resources again, and delete the file with the position"
"""What to do if a position is not accepted."""


class PositionFile:
    """The position after the last change that was delivered. Raises StartError."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> str | None:
        """Return the position, None if there is no file yet."""
        if not self._path.exists() and self._path.parent.is_dir():
            return None
        with self._explained():
            position = self._path.read_text().strip()
        if not position:  # the service would begin at the present, and leave changes out
            raise StartError(f"{self._path} has no position{RESTART}")
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
            raise StartError(f"--position-file: {self._path}: {error.strerror}") from None


async def watch(
    client: Client, types: Iterable[str], deliver: Deliver, file: PositionFile | None
) -> NoReturn:
    """Deliver all changes in their order, at least once, again after a crash.

    The last change of a transaction has the id of its position, others one with a number added:
    they have the same ids when they are delivered again. file: None to begin at the present. Raises
    RegistryError, or what `deliver` raises; what does not last, it waits for.
    """
    async for position, changes in client.follow(types, file.load() if file else None):
        for number, change in enumerate(changes, 1):
            is_last = number == len(changes)
            await deliver(position if is_last else f"{position}-{number}", change)
        if file:
            file.store(position)
    raise AssertionError  # the feed has no end
