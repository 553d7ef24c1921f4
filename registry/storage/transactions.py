"""Transactions: all of a change or nothing of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.jsonapi.errors import Unavailable

_Result = TypeVar("_Result")

_Write = Callable[[AsyncIOMotorClientSession], Awaitable[_Result]]

_PATIENCE_SECONDS = 10.0
"""How long a transaction is begun anew when others write the same documents."""


class _LostRace(Exception):
    """Another transaction wrote the same documents first."""


class Transactions:
    """Runs writes in transactions of one client."""

    def __init__(self, client: AsyncIOMotorClient[dict[str, Any]]) -> None:
        self._client = client
        self._turn = asyncio.Lock()

    async def run(self, write: _Write[_Result]) -> _Result:
        """Return what `write` returns; it is called anew when others wrote the same first.

        The driver's own repetition goes on for two minutes, even without a database. Raises
        Unavailable when it does not get through, and whatever `write` raises.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        with suppress(_LostRace):
            return await self._attempt(write)
        # Those who lost take turns, or they would make each other lose again.
        async with self._turn:
            while time.monotonic() < deadline:
                with suppress(_LostRace):
                    return await self._attempt(write)
        raise Unavailable

    async def _attempt(self, write: _Write[_Result]) -> _Result:
        try:
            async with await self._client.start_session() as session, session.start_transaction():
                return await write(session)
        except OperationFailure as error:
            if error.has_error_label("TransientTransactionError"):
                raise _LostRace from error
            raise
