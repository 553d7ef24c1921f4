"""Transactions: all of a change or nothing of it, retried when it conflicts with another."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo.errors import OperationFailure

from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.client import Database
from registry.storage.errors import Unavailable, translated_errors

_Result = TypeVar("_Result")

_RETRY_SECONDS = 10.0
"""How long a transaction is retried while others write the same documents."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in progress."""

    database: Database
    graph: Graph
    session: AsyncIOMotorClientSession

    def collection(self, resource: Resource) -> AsyncIOMotorCollection[Record]:
        """Return the collection of a type; pass `session` to its methods."""
        return self.database[resource.collection]


@dataclass(frozen=True, slots=True)
class Committed(Generic[_Result]):
    """The result of a transaction, and the time at which it became visible."""

    result: _Result
    time: Timestamp | None


class _TransientError(Exception):
    """MongoDB aborted the transaction, usually because another wrote the same documents first."""


class Transactions:
    """Runs callbacks in transactions of one database."""

    def __init__(self, database: Database, graph: Graph) -> None:
        self._database = database
        self._graph = graph
        self._retries = asyncio.Lock()

    async def run(
        self, callback: Callable[[Transaction], Awaitable[_Result]]
    ) -> Committed[_Result]:
        """Return what the callback returns; it is called again after a write conflict.

        Raises Unavailable if the database does not respond or conflicts persist, and what the
        callback raises.
        """
        # pymongo's `with_transaction` retries for two minutes, even without a database.
        deadline = time.monotonic() + _RETRY_SECONDS
        with suppress(_TransientError):
            return await self._attempt(callback)
        # Retries take turns; in parallel they would conflict with each other again.
        async with self._retries:
            while time.monotonic() < deadline:
                with suppress(_TransientError):
                    return await self._attempt(callback)
        raise Unavailable

    async def _attempt(
        self, callback: Callable[[Transaction], Awaitable[_Result]]
    ) -> Committed[_Result]:
        with translated_errors():
            try:
                async with await self._database.client.start_session() as session:
                    async with session.start_transaction():
                        result = await callback(Transaction(self._database, self._graph, session))
                    # The stubs of motor declare this property as a method.
                    return Committed(result, session.operation_time)  # type: ignore[arg-type]
            except OperationFailure as error:
                if error.has_error_label("TransientTransactionError"):
                    raise _TransientError from error
                raise
