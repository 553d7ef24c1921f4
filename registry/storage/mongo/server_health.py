"""Whether the server can serve: its primary replies in time, and its disk has space for changes."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import pymongo
from pymongo.errors import PyMongoError

from registry.capacity import SHARING_CALLERS
from registry.mongod.data_directory import MEMBER, RESERVE_BYTES, has_space
from registry.storage.errors import DiskNearlyFull
from registry.storage.mongo.batching import Coalescer
from registry.storage.mongo.driver_metrics import observed
from registry.storage.mongo.mongo_client import Database

_PING_SECONDS = 1.0


class Availability:
    """Asks the primary of a database; concurrent callers share the command."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pings = Coalescer[bool](name="pings", max_callers=SHARING_CALLERS)

    async def has_primary(self) -> bool:
        """Return whether a primary replies within a second."""
        try:
            async with asyncio.timeout(_PING_SECONDS):
                return await self._pings.load(None, self._ping)
        except TimeoutError:
            return False

    async def _ping(self) -> bool:
        try:
            with pymongo.timeout(
                _PING_SECONDS
            ):  # so that the thread does not wait for longer either
                hello = await observed("hello", self._database.command("hello"))
        except PyMongoError:
            return False
        return bool(hello["isWritablePrimary"])


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
