"""Transactions: all of a change or none of it, retried when it conflicts with another."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import pymongo
from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo.errors import (
    DocumentTooLarge,
    NetworkTimeout,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern

from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.client import Database
from registry.storage.command_durations import observed
from registry.storage.errors import StorageError, Unavailable, translated_errors
from registry.storage.orphaned_transactions import OrphanedTransactions
from registry.storage.session_pool import SessionPool

_Result = TypeVar("_Result")

_RETRY_SECONDS = 10.0
"""How long a transaction is retried while others write the same documents."""

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.1
"""The pause before a retry; it doubles each time. MongoDB reports a locked document at once."""

_CALLBACK_SECONDS, _COMMIT_SECONDS, _ABORT_SECONDS = 10.0, 5.0, 1.0
"""The time limits of the commands of a transaction before its commit, of the commit and the abort,
in the service and on the server."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in progress."""

    database: Database
    graph: Graph
    session: AsyncIOMotorClientSession

    def collection(self, resource: Resource) -> AsyncIOMotorCollection[Record]:
        """Return the collection of a type; pass `session` to its methods."""
        return self.database[resource.collection]

    async def insert(self, collection: str, documents: Sequence[Record]) -> None:
        """Insert documents into a collection.

        Raises PyMongoError, DocumentTooLarge, or TransactionConflict if MongoDB rejects a document,
        usually because its id is taken, or if several exceed 16 MB together.
        """
        if not documents:
            return
        # `insert_many` takes 4 us more for each document.
        command = {"insert": collection, "documents": documents}
        options = self.database.codec_options
        try:
            reply = await self.database.command(
                command, codec_options=options, session=self.session
            )
        except DocumentTooLarge as error:
            if len(documents) == 1:
                raise
            raise TransactionConflict from error
        if "writeErrors" in reply:
            raise TransactionConflict


@dataclass(frozen=True, slots=True)
class Committed(Generic[_Result]):
    """The result of a transaction, and the time at which it became visible."""

    result: _Result
    time: Timestamp | None


class TransactionConflict(StorageError):
    """Nothing of the transaction is written, and it can be retried.

    Usually another wrote the same documents first, or the connection was lost before the commit.
    """


class Transactions:
    """Runs callbacks in transactions of one database."""

    def __init__(self, database: Database, graph: Graph, orphans: OrphanedTransactions) -> None:
        self._database = database
        self._graph = graph
        self._orphans = orphans
        self._turn = asyncio.Lock()
        self._sessions = SessionPool(database)

    async def close(self) -> None:
        """End the sessions, after the last transaction."""
        await self._sessions.close()

    async def run(
        self, callback: Callable[[Transaction], Awaitable[_Result]]
    ) -> Committed[_Result]:
        """Run the callback in a transaction; return its result with the commit time.

        It is called again after a write conflict or a lost connection. Raises Unavailable if the
        database does not respond or conflicts persist, and what the callback raises.
        """
        # pymongo's `with_transaction` retries for two minutes, even without a database.
        began, pause = time.monotonic(), _PAUSE_SECONDS
        with suppress(TransactionConflict):
            return await self.attempt(callback)
        while time.monotonic() - began < _RETRY_SECONDS:
            # Retries take turns; in parallel they would conflict with each other again.
            async with self._turn:
                with suppress(TransactionConflict):
                    return await self.attempt(callback)
            self._orphans.suspect(began)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        raise Unavailable

    async def attempt(
        self, callback: Callable[[Transaction], Awaitable[_Result]]
    ) -> Committed[_Result]:
        """Run the callback once in a transaction; return its result with the commit time.

        Raises TransactionConflict or what the callback raises, then nothing is written; or
        Unavailable, then the transaction may have been committed.
        """
        with translated_errors():
            try:
                async with self._sessions.session() as session:
                    running = self._run_in_transaction(callback, session)
                    result = await observed("transaction", running)
                    # The stubs of motor declare this property as a method.
                    return Committed(result, session.operation_time)  # type: ignore[arg-type]
            except (NetworkTimeout, ServerSelectionTimeoutError):
                raise  # the time to wait is over
            except PyMongoError as error:  # a lost connection has the label too, before the commit
                if error.has_error_label("TransientTransactionError"):
                    raise TransactionConflict from error
                raise

    async def _run_in_transaction(
        self,
        callback: Callable[[Transaction], Awaitable[_Result]],
        session: AsyncIOMotorClientSession,
    ) -> _Result:
        session.start_transaction(read_concern=ReadConcern("snapshot"))
        try:
            with pymongo.timeout(_CALLBACK_SECONDS):
                result = await callback(Transaction(self._database, self._graph, session))
        except BaseException:
            with pymongo.timeout(_ABORT_SECONDS):
                await session.abort_transaction()
            raise
        with pymongo.timeout(_COMMIT_SECONDS):
            await session.commit_transaction()
        return result
