"""Transactions: all of a change or nothing of it, retried when it conflicts with another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.storage.errors import Unavailable, translated_errors

_Result = TypeVar("_Result")

Session: TypeAlias = AsyncIOMotorClientSession

_RETRY_SECONDS = 10.0
"""How long a transaction is retried while others write the same documents."""


class _TransientError(Exception):
    """Another transaction wrote the same documents first."""


class Transactions:
    """Runs callbacks in transactions of one client."""

    def __init__(self, client: AsyncIOMotorClient[dict[str, Any]]) -> None:
        self._client = client
        self._retries = asyncio.Lock()

    async def run(self, callback: Callable[[Session], Awaitable[_Result]]) -> _Result:
        """Return what the callback returns; it is called again after a write conflict.

        pymongo's `with_transaction` retries for two minutes, even without a database. Raises
        Unavailable if the database does not respond or conflicts persist, and what the callback
        raises.
        """
        deadline = time.monotonic() + _RETRY_SECONDS
        with suppress(_TransientError):
            return await self._attempt(callback)
        # Retries take turns; in parallel they would conflict with each other again.
        async with self._retries:
            while time.monotonic() < deadline:
                with suppress(_TransientError):
                    return await self._attempt(callback)
        raise Unavailable

    async def _attempt(self, callback: Callable[[Session], Awaitable[_Result]]) -> _Result:
        with translated_errors():
            try:
                async with (
                    await self._client.start_session() as session,
                    session.start_transaction(),
                ):
                    return await callback(session)
            except OperationFailure as error:
                if error.has_error_label("TransientTransactionError"):
                    raise _TransientError from error
                raise
