"""Sessions: those that are used again, and those whose reads show one point in time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pymongo
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.storage.mongo.mongo_client import Database

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
