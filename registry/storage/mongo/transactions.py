"""Transactions: all of a change or none of it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import pymongo
from bson.timestamp import Timestamp
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import (
    ConnectionFailure,
    DocumentTooLarge,
    NetworkTimeout,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern

from registry.jsonapi.error_objects import RequestError
from registry.jsonapi.error_types import Unavailable
from registry.model.record import Record
from registry.storage.errors import translated_errors
from registry.storage.mongo.mongo_client import Database, SessionPool, observed
from registry.storage.mongo.read_commands import aggregate_command, find_command
from registry.storage.records import ONE_BATCH, Stage

_log = logging.getLogger("registry")

_Result = TypeVar("_Result")

Statement: TypeAlias = Mapping[str, Any]
"""A statement of the command `update` or `delete`."""

_COMMANDS_SECONDS, _SHARED_SECONDS = 10.0, 5.0
"""The time limits of the commands of a transaction before its commit, and of one that requests
share: they have time to run again alone."""

_COMMIT_SECONDS, _ABORT_SECONDS = 5.0, 1.0
"""The time limits of the commit and of the abort, in the service and on the server."""


class TransactionConflict(Exception):
    """Nothing of the transaction is written, and it can be run again.

    Usually another wrote the same documents first, or the connection was lost before the commit.
    """


class WriteRejected(TransactionConflict):
    """MongoDB has rejected what would be written to one record.

    error: the reason, an element of `writeErrors`. id: that of the record.
    """

    def __init__(self, error: Mapping[str, Any], id_: Any) -> None:
        super().__init__(error, id_)
        self.error = error
        self.id = id_


class Transaction:
    """A transaction in progress. The methods raise PyMongoError."""

    def __init__(self, database: Database, session: AsyncIOMotorClientSession) -> None:
        self._database = database
        self._session = session

    async def find(
        self,
        collection: str,
        query: Mapping[str, Any],
        projection: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Record]:
        """Return the records of a query. options: of the command, such as `limit`."""
        reply = await self._run(find_command(collection, query, projection or {}, **options))
        if not reply["cursor"]["id"]:
            records: list[Record] = reply["cursor"]["firstBatch"]
            return records
        # Too many for one reply. A cursor of the driver keeps the time limit of the transaction.
        cursor = self._database[collection].find(
            query, projection or None, batch_size=ONE_BATCH, session=self._session, **options
        )
        return await cursor.to_list(None)

    async def aggregate(self, stages: list[Stage], **options: Any) -> list[Record]:
        """Return what a pipeline on the database finds, of one reply at most."""
        reply = await self._run(aggregate_command(1, stages, **options))
        records: list[Record] = reply["cursor"]["firstBatch"]
        return records

    async def insert(self, collection: str, documents: Sequence[Record]) -> None:
        """Insert documents.

        Raises WriteRejected, DocumentTooLarge for a single document, or TransactionConflict if
        several exceed 16 MB together.
        """
        if not documents:
            return
        try:
            # `insert_many` takes 4 us more for each document.
            reply = await self._run({"insert": collection, "documents": documents})
        except DocumentTooLarge as error:
            if len(documents) == 1:
                raise
            raise TransactionConflict from error
        _check(reply, [document["_id"] for document in documents])

    async def update(self, collection: str, statements: Sequence[Statement]) -> int:
        """Update documents; return how many were found. Raises WriteRejected."""
        reply = await self._run({"update": collection, "updates": statements})
        _check(reply, [statement["q"]["_id"] for statement in statements])
        found: int = reply["n"]
        return found

    async def delete(self, collection: str, statements: Sequence[Statement]) -> None:
        """Delete documents. Raises WriteRejected."""
        reply = await self._run({"delete": collection, "deletes": statements})
        _check(reply, [statement["q"]["_id"] for statement in statements])

    async def _run(self, command: dict[str, Any]) -> dict[str, Any]:
        options = self._database.codec_options
        return await self._database.command(command, codec_options=options, session=self._session)


_SUSPECT_SECONDS = 0.2
"""How long a write conflicts before transactions of clients that are gone are searched for."""

_SEARCH_SECONDS = 1.0
"""The time limit of a search."""


async def end_transactions_of_lost_clients(database: Database) -> None:
    """End the transactions of this user whose connection no longer exists, as of a killed process.

    MongoDB would keep what they have written locked for `transactionLifetimeLimitSeconds`. It
    requires no privilege; a mongos requires `inprog`. Raises PyMongoError.
    """
    current = {"allUsers": False, "idleSessions": True, "idleConnections": True}
    found = await database.client.admin.aggregate([{"$currentOp": current}]).to_list(None)
    connected = {operation.get("connectionId") for operation in found if operation["type"] == "op"}
    lost = [
        {"id": operation["lsid"]["id"]}
        for operation in found
        if operation["type"] == "idleSession"
        and "transaction" in operation
        and operation.get("connectionId") not in connected
    ]
    if lost:
        await database.client.admin.command("killSessions", lost)


Callback: TypeAlias = Callable[[Transaction], Awaitable[_Result]]
"""What is done in a transaction."""

Committed: TypeAlias = tuple[_Result, Timestamp | None]
"""The result of a transaction, and the time at which it became visible."""


class Transactions:
    """Runs callbacks in transactions of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._search: asyncio.Task[None] | None = None  # for transactions of lost clients
        self._sessions = SessionPool(database)

    async def close(self) -> None:
        """End the sessions, after the last transaction."""
        if self._search is not None:
            await asyncio.wait([self._search])
        await self._sessions.close()

    def clean_up_if_stuck(self, since: float) -> None:
        """End transactions of lost clients in the background if a write conflicts for a while.

        since: when it began to, in seconds of `time.monotonic`.
        """
        is_searching = self._search is not None and not self._search.done()
        if not is_searching and time.monotonic() - since > _SUSPECT_SECONDS:
            self._search = asyncio.create_task(self._clean_up())

    async def _clean_up(self) -> None:
        with suppress(Unavailable), translated_errors(), pymongo.timeout(_SEARCH_SECONDS):
            await end_transactions_of_lost_clients(self._database)

    async def attempt_shared(self, callback: Callback[_Result]) -> Committed[_Result]:
        """Run a callback for several requests once, as `attempt` does.

        Raises TransactionConflict also if MongoDB rejects a command, if the transaction takes too
        long, or after any other error but a lost connection: one of the requests may be the cause.
        """

        async def separable(transaction: Transaction) -> _Result:
            try:
                with pymongo.timeout(_SHARED_SECONDS):
                    return await callback(transaction)
            except (RequestError, TransactionConflict, ConnectionFailure):
                raise
            except Exception as error:
                raise TransactionConflict from error

        return await self.attempt(separable)

    async def attempt(
        self, callback: Callback[_Result], *, commits: bool = True
    ) -> Committed[_Result]:
        """Run the callback once in a transaction; return its result with the commit time.

        Raises TransactionConflict or what the callback raises, then nothing is written; or
        Unavailable, then the transaction may have been committed.
        """
        with translated_errors():
            try:
                async with self._sessions.session() as session:
                    transaction = self._transact(callback, session, commits=commits)
                    result = await observed("transaction", transaction)
                    # The stubs of motor declare this property as a method.
                    return result, session.operation_time  # type: ignore[return-value]
            except (NetworkTimeout, ServerSelectionTimeoutError):
                raise  # the time to wait is over
            except PyMongoError as error:  # a lost connection has the label too, before the commit
                if error.has_error_label("TransientTransactionError"):
                    raise TransactionConflict from error
                raise

    async def _transact(
        self, callback: Callback[_Result], session: AsyncIOMotorClientSession, *, commits: bool
    ) -> _Result:
        session.start_transaction(read_concern=ReadConcern("snapshot"))
        try:
            with pymongo.timeout(_COMMANDS_SECONDS):
                result = await callback(Transaction(self._database, session))
        except BaseException:
            with pymongo.timeout(_ABORT_SECONDS):
                await session.abort_transaction()
            raise
        if commits:
            with pymongo.timeout(_COMMIT_SECONDS):  # the driver repeats it until then
                await session.commit_transaction()
        else:
            await session.abort_transaction()
        return result


def _check(reply: Mapping[str, Any], ids: Sequence[Any]) -> None:
    """Raise WriteRejected if a reply has errors. ids: those of the documents or statements."""
    for error in reply.get("writeErrors", ()):
        raise WriteRejected(error, ids[error["index"]])
