"""Whether the disk of the embedded mongod has space for changes."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

from registry.mongod.data_directory import MEMBER, RESERVE_BYTES, has_space
from registry.mongod.data_format import MongoClient

_CHECK_SECONDS = 1.0

_log = logging.getLogger("registry")


class DiskSpace:
    """Checks the disk of the embedded mongod in the background, which takes microseconds.

    is_enough: whether there is space for changes.
    """

    def __init__(self) -> None:
        self.is_enough = True
        self._timer: asyncio.TimerHandle | None = None

    async def watch(self, client: MongoClient) -> None:
        """Begin to check the disk if the mongod is embedded. Raises PyMongoError."""
        if (await client.admin.command("hello")).get("me") == MEMBER:
            options = await client.admin.command("getCmdLineOpts")
            self._check(Path(options["parsed"]["storage"]["dbPath"]))

    def close(self) -> None:
        """End the checks."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self, directory: Path) -> None:
        was_enough = self.is_enough
        with suppress(OSError):
            self.is_enough = has_space(directory, RESERVE_BYTES)
        if was_enough and not self.is_enough:
            _log.error(
                "The disk of %s has less than %d MB of free space: changes are refused",
                directory,
                RESERVE_BYTES // 2**20,
            )
        elif self.is_enough and not was_enough:
            _log.warning("The disk of %s has free space again", directory)
        self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check, directory)
