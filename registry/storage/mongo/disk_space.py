"""Whether the disk of the server has space for changes."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

from registry.mongod.data_directory import MEMBER, RESERVE_BYTES, has_space
from registry.storage.errors import DiskNearlyFull
from registry.storage.mongo.mongo_client import Database

_CHECK_SECONDS = 1.0

_log = logging.getLogger("registry")


class DiskSpace:
    """Whether the disk of an embedded mongod has space for changes; other servers are not checked.

    Each process checks the disk by itself, in the background: it takes microseconds.
    """

    def __init__(self, database: Database) -> None:
        self._admin = database.client.admin
        self._directory = Path()
        self._has_space = True
        self._timer: asyncio.TimerHandle | None = None

    async def watch(self) -> None:
        """Begin to check the disk, which ends with `close`. Raises PyMongoError."""
        if (await self._admin.command("hello")).get("me") == MEMBER:
            options = await self._admin.command("getCmdLineOpts")
            self._directory = Path(options["parsed"]["storage"]["dbPath"])
            self._check()

    def require(self) -> None:
        """Raise DiskNearlyFull if there is no space for changes."""
        if not self._has_space:
            raise DiskNearlyFull(RESERVE_BYTES)

    def close(self) -> None:
        """End the checks."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        had_space = self._has_space
        with suppress(OSError):
            self._has_space = has_space(self._directory, RESERVE_BYTES)
        if had_space and not self._has_space:
            _log.error(
                "The disk of %s has less than %d MB of free space: changes are refused",
                self._directory,
                RESERVE_BYTES // 2**20,
            )
        elif self._has_space and not had_space:
            _log.warning("The disk of %s has free space again", self._directory)
        self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)
