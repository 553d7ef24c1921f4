"""Sessions that are used again, as motor starts and ends each of them in a thread."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.storage.mongo.mongo_client import Database


class SessionPool:
    """The idle sessions of one database.

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
