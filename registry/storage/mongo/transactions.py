"""Transactions: all of a change or none of it."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

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
from registry.storage.mongo.mongo_client import Database, SessionPool
from registry.storage.records import ONE_BATCH, Stage

_log = logging.getLogger("registry")

Statement: TypeAlias = Mapping[str, Any]
"""A statement of the command `update` or `delete`."""

_COMMANDS_SECONDS, SHARED_SECONDS = 10.0, 5.0
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
    """A transaction in progress. The methods raise PyMongoError.

    committed_at: the time at which it became visible, after its commit.
    """

    committed_at: Timestamp | None = None

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
        reply = await self._run(
            {
                "find": collection,
                "filter": query,
                "projection": projection or {},
                "batchSize": ONE_BATCH,
                **options,
            }
        )
        if not reply["cursor"]["id"]:
            records: list[Record] = reply["cursor"]["firstBatch"]
            return records
        # Too many for one reply. A cursor of the driver keeps the time limit of the transaction.
        cursor = self._database[collection].find(
            query, projection or None, batch_size=ONE_BATCH, session=self._session, **options
        )
        return await cursor.to_list(None)

    async def aggregate(
        self, stages: list[Stage], collection: str | int = 1, **options: Any
    ) -> list[Record]:
        """Return what a pipeline finds, of one reply at most. collection: 1 for the database."""
        command = {"aggregate": collection, "pipeline": stages, "cursor": {"batchSize": ONE_BATCH}}
        reply = await self._run({**command, **options})
        records: list[Record] = reply["cursor"]["firstBatch"]
        return records

    async def insert(self, collection: str, documents: Sequence[Record]) -> None:
        """Insert documents.

        Raises WriteRejected, DocumentTooLarge for a single document, or TransactionConflict if
        several exceed 16 MB together.
        """
        try:
            # `insert_many` takes 4 us more for each document.
            reply = await self._run({"insert": collection, "documents": documents})
        except DocumentTooLarge as error:
            if len(documents) == 1:
                raise
            raise TransactionConflict from error
        _check(reply, documents)

    async def update(self, collection: str, statements: Sequence[Statement]) -> int:
        """Update documents; return how many were found. Raises WriteRejected."""
        reply = await self._run({"update": collection, "updates": statements})
        _check(reply, statements)
        found: int = reply["n"]
        return found

    async def delete(self, collection: str, query: Mapping[str, Any]) -> None:
        """Delete the documents that match a query. Raises WriteRejected."""
        deletes = [{"q": query, "limit": 0}]
        _check(await self._run({"delete": collection, "deletes": deletes}), deletes)

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


_EXPECTED = RequestError, TransactionConflict, ConnectionFailure
"""What a transaction that requests share fails with if none of them may be the cause alone."""


class Transactions:
    """Runs transactions of one database. on_failure: as of SessionPool."""

    def __init__(
        self, database: Database, on_failure: Callable[[str], None] = lambda _: None
    ) -> None:
        self._database = database
        self._search: asyncio.Task[None] | None = None  # for transactions of lost clients
        self._sessions = SessionPool(database, on_failure)

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

    @asynccontextmanager
    async def begin(self, *, is_shared: bool, rolls_back: bool) -> AsyncIterator[Transaction]:
        """Yield a transaction, which is committed in the end, or undone.

        is_shared: whether requests share it. Any error but a lost connection is then a conflict, as
        is exceeding its time limit: one of the requests may be the cause. Raises
        TransactionConflict or what the context raises, then nothing is written; or Unavailable,
        then the transaction may have been committed.
        """
        with translated_errors():
            try:
                async with self._sessions.session() as session:
                    session.start_transaction(read_concern=ReadConcern("snapshot"))
                    transaction = Transaction(self._database, session)
                    try:
                        with pymongo.timeout(SHARED_SECONDS if is_shared else _COMMANDS_SECONDS):
                            yield transaction
                    except Exception as error:
                        with pymongo.timeout(_ABORT_SECONDS):
                            await session.abort_transaction()
                        if not is_shared or isinstance(error, _EXPECTED):
                            raise
                        raise TransactionConflict from error
                    if rolls_back:
                        await session.abort_transaction()
                        return
                    with pymongo.timeout(_COMMIT_SECONDS):  # the driver repeats it until then
                        await session.commit_transaction()
                    # The stubs of motor declare this property as a method.
                    transaction.committed_at = session.operation_time  # type: ignore[assignment]
            except (NetworkTimeout, ServerSelectionTimeoutError):
                raise  # the time to wait is over
            except PyMongoError as error:  # a lost connection has the label too, before the commit
                if error.has_error_label("TransientTransactionError"):
                    raise TransactionConflict from error
                raise


def _check(reply: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
    """Raise WriteRejected if a reply has errors. parts: the documents or statements sent."""
    for error in reply.get("writeErrors", ()):
        part = parts[error["index"]]
        raise WriteRejected(error, part.get("q", part)["_id"])
