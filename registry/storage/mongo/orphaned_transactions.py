"""Orphaned transactions: left open by processes that were killed, stopped or cut off."""

import asyncio
import time
from contextlib import suppress
from typing import Any, TypeAlias

import pymongo

from registry.storage.errors import Unavailable, translated_errors
from registry.storage.mongo.mongo_client import APP_NAME, Database

SUSPECT_SECONDS = 1.0
"""How long a write conflicts before orphaned transactions are searched for, and how long one has
been idle when it is ended. A process that is alive runs its transaction again."""

_SEARCH_SECONDS = 5.0
"""The time limit of a search, with its pause."""

_Transaction: TypeAlias = tuple[Any, int, int]
"""The id of the session, the number of the transaction, and how long it was active (us)."""


class OrphanedTransactions:
    """Ends idle transactions of all registry services that use this MongoDB as the same user.

    Otherwise, MongoDB keeps the records that they have written locked for a minute. A replica set
    requires no privilege for one's own sessions; a mongos requires `inprog`.
    """

    def __init__(self, database: Database) -> None:
        self._admin = database.client.admin
        self._search: asyncio.Task[None] | None = None

    def clean_up_if_stuck(self, since: float) -> None:
        """Search for them in the background if a write conflicts for a while.

        since: when its first attempt began, in seconds of `time.monotonic`.
        """
        is_searching = self._search is not None and not self._search.done()
        if not is_searching and time.monotonic() - since > SUSPECT_SECONDS:
            self._search = asyncio.create_task(self._end_orphaned())

    async def close(self) -> None:
        """End a search that is under way."""
        if self._search is not None:
            self._search.cancel()
            await asyncio.wait([self._search])

    async def _end_orphaned(self) -> None:
        with suppress(Unavailable), translated_errors(), pymongo.timeout(_SEARCH_SECONDS):
            before = await self._open_transactions()
            await asyncio.sleep(SUSPECT_SECONDS)
            if orphaned := before & await self._open_transactions():
                sessions = [{"id": session} for session, _, _ in orphaned]
                await self._admin.command("killSessions", sessions)

    async def _open_transactions(self) -> set[_Transaction]:
        """Return the transactions that are open and execute no command."""
        stages: list[dict[str, Any]] = [
            {"$currentOp": {"allUsers": False, "idleSessions": True}},
            {
                "$match": {
                    "type": "idleSession",
                    "appName": APP_NAME,
                    "transaction": {"$exists": True},
                }
            },
        ]
        found = await self._admin.aggregate(stages).to_list(None)
        return {
            (
                each["lsid"]["id"],
                each["transaction"]["parameters"]["txnNumber"],
                each["transaction"]["timeActiveMicros"],
            )
            for each in found
        }
