"""Sessions: used again, of one point in time, or left by others with an open transaction."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import pymongo
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.storage.errors import Unavailable, translated_errors
from registry.storage.mongo.mongo_client import APP_NAME, Database

_SNAPSHOT_TOO_OLD = 239

_READ_SECONDS = 3_600.0
"""The time limit of all reads, instead of that of the connection: some read a whole collection
before they reply."""


class SnapshotExpired(Exception):
    """The reads take longer than MongoDB keeps a snapshot; the message says how to extend that."""


class SessionPool:
    """The idle sessions of one database; motor starts and ends each of them in a thread.

    They are not causally consistent, else each transaction would wait for the time of the one
    before.
    """

    def __init__(self, database: Database) -> None:
        self._client = database.client
        self._idle: list[AsyncIOMotorClientSession] = []

    async def close(self) -> None:
        """End the sessions, once none of them is in use."""
        while self._idle:
            await self._idle.pop().end_session()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncIOMotorClientSession]:
        """Yield a session that nobody else uses. It ends if the caller fails."""
        if self._idle:
            session = self._idle.pop()
        else:
            session = await self._client.start_session(causal_consistency=False)
        try:
            yield session
        except BaseException:
            await session.end_session()
            raise
        self._idle.append(session)


@asynccontextmanager
async def snapshot_session(database: Database) -> AsyncIterator[AsyncIOMotorClientSession]:
    """Yield a session whose reads all show the point in time of the first one.

    Raises SnapshotExpired, after five minutes by default; also PyMongoError.
    """
    try:
        async with await database.client.start_session(snapshot=True) as session:
            with pymongo.timeout(_READ_SECONDS):
                yield session
    except OperationFailure as error:
        if error.code == _SNAPSHOT_TOO_OLD:
            raise SnapshotExpired(
                "it takes longer than MongoDB keeps a snapshot: "
                "increase the server parameter minSnapshotHistoryWindowInSeconds"
            ) from error
        raise


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
