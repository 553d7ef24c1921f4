"""Transactions: all of a change or none of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, TypeVar

import pymongo
import pymongo.database
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import (
    ConfigurationError,
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
from registry.storage.mongo.mongo_client import Database, reason_of
from registry.storage.records import ONE_BATCH, Stage

_Result = TypeVar("_Result")

Statement: TypeAlias = Mapping[str, Any]
"""A statement of the command `update` or `delete`."""

_COMMANDS_SECONDS, SHARED_SECONDS = 10.0, 5.0
"""The time limits of the commands of a transaction before its commit, and of one that requests
share: they have time to run again alone."""

_SHORTEST_SECONDS = 0.001
"""The time limit of commands when the time of their transaction is over."""

_COMMIT_SECONDS, _ABORT_SECONDS = 5.0, 1.0
"""The time limits of the commit and of the abort, in the service and on the server."""


class TransactionConflict(Exception):
    """Nothing of the transaction is written, and it can be run again.

    Usually another wrote the same documents first, or the connection was lost before the commit.
    """


class WriteRejected(TransactionConflict):
    """MongoDB has rejected what would be written to one record.

    error: the reason, an element of `writeErrors`. collection, id: those of the record.
    """

    def __init__(self, error: Mapping[str, Any], collection: str, id_: Any) -> None:
        super().__init__(error, collection, id_)
        self.error = error
        self.collection = collection
        self.id = id_


class Transaction:
    """A transaction in progress.

    Its methods block, except `run`, whose work calls the others. They raise PyMongoError.
    committed_at: the time at which it became visible, after its commit.
    """

    committed_at: Timestamp | None = None

    def __init__(
        self, database: pymongo.database.Database[Record], session: ClientSession, seconds: float
    ) -> None:
        self._database = database
        self._session = session
        self._deadline = time.monotonic() + seconds

    async def run(self, work: Callable[[], _Result], *, commits: bool = False) -> _Result:
        """Run work in a thread and return its result; commits: after it, commit the transaction.

        With a thread for each command, as motor has it, creating a person would take 300 us more
        CPU time.
        """
        return await asyncio.to_thread(self._run, work, commits)

    def _run(self, work: Callable[[], _Result], commits: bool) -> _Result:
        with pymongo.timeout(max(self._deadline - time.monotonic(), _SHORTEST_SECONDS)):
            result = work()
        if commits:
            with pymongo.timeout(_COMMIT_SECONDS):  # the driver repeats it until then
                self._session.commit_transaction()
            self.committed_at = self._session.operation_time
        return result

    def find(
        self,
        collection: str,
        query: Mapping[str, Any],
        projection: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Record]:
        """Return the records of a query. options: of the command, such as `limit`."""
        reply = self._send(
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
        # Too many for one reply.
        cursor = self._database[collection].find(
            query, projection or None, batch_size=ONE_BATCH, session=self._session, **options
        )
        return list(cursor)

    def aggregate(
        self, stages: list[Stage], collection: str | int = 1, **options: Any
    ) -> list[Record]:
        """Return what a pipeline finds, of one reply at most. collection: 1 for the database."""
        command = {"aggregate": collection, "pipeline": stages, "cursor": {"batchSize": ONE_BATCH}}
        records: list[Record] = self._send({**command, **options})["cursor"]["firstBatch"]
        return records

    def insert(self, collection: str, documents: Sequence[Record]) -> None:
        """Insert documents.

        Raises WriteRejected, DocumentTooLarge for a single document, or TransactionConflict if
        several exceed 16 MB together.
        """
        try:
            # `insert_many` takes 4 us more for each document.
            self._send({"insert": collection, "documents": documents}, documents)
        except DocumentTooLarge as error:
            if len(documents) == 1:
                raise
            raise TransactionConflict from error

    def update(self, collection: str, statements: Sequence[Statement]) -> int:
        """Update documents; return how many were found. Raises WriteRejected."""
        reply = self._send({"update": collection, "updates": statements}, statements)
        found: int = reply["n"]
        return found

    def delete(self, collection: str, query: Mapping[str, Any]) -> None:
        """Delete the documents that match a query. Raises WriteRejected."""
        deletes = [{"q": query, "limit": 0}]
        self._send({"delete": collection, "deletes": deletes}, deletes)

    def _send(
        self, command: dict[str, Any], parts: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """Return the reply. parts: the documents or statements. Raises WriteRejected for one."""
        options = self._database.codec_options
        reply: dict[str, Any] = self._database.command(
            command, codec_options=options, session=self._session
        )
        for error in reply.get("writeErrors", ()):
            part = parts[error["index"]]
            raise WriteRejected(error, next(iter(command.values())), part.get("q", part)["_id"])
        return reply


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
"""Errors of a shared transaction for which to run each of its requests alone would be no remedy."""


class Transactions:
    """Runs transactions of one database.

    on_failure: called with the reason if the driver refuses sessions. It does so for ever on a
    connection that it has opened while MongoDB started, which `directConnection` makes possible.
    """

    def __init__(
        self, database: Database, on_failure: Callable[[str], None] = lambda _: None
    ) -> None:
        self._database = database
        self._on_failure = on_failure
        self._search: asyncio.Task[None] | None = None  # for transactions of lost clients

    async def close(self) -> None:
        """Wait for what was begun in the background."""
        if self._search is not None:
            await asyncio.wait([self._search])

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
    async def begin(self, *, is_shared: bool) -> AsyncIterator[Transaction]:
        """Yield a transaction, which is undone in the end unless it is committed.

        is_shared: whether requests share it. As one of them may be the cause, any error but a lost
        connection is then a conflict, also that the time limit is exceeded. Raises
        TransactionConflict, or what the context raises: then nothing is written. Raises
        Unavailable: then the transaction may have been committed.
        """
        # If it were causally consistent, it would wait for the time of the transaction before.
        session = self._database.client.delegate.start_session(causal_consistency=False)
        with translated_errors(), session:
            session.start_transaction(read_concern=ReadConcern("snapshot"))
            seconds = SHARED_SECONDS if is_shared else _COMMANDS_SECONDS
            try:
                yield Transaction(self._database.delegate, session, seconds)
            except (NetworkTimeout, ServerSelectionTimeoutError):
                raise  # the time to wait is over
            except Exception as error:
                if isinstance(error, ConfigurationError):
                    self._on_failure(f"MongoDB cannot be used any more: {reason_of(error)}")
                is_uncommitted = session.in_transaction
                is_conflict = is_shared and is_uncommitted and not isinstance(error, _EXPECTED)
                if isinstance(error, PyMongoError):  # a lost connection too, before the commit
                    is_conflict |= error.has_error_label("TransientTransactionError")
                if is_conflict:
                    raise TransactionConflict from error
                raise
            finally:
                if session.in_transaction:
                    await asyncio.to_thread(_abort, session)


def _abort(session: ClientSession) -> None:
    with pymongo.timeout(_ABORT_SECONDS):
        session.abort_transaction()
