"""Writes that change links: concurrent requests share a transaction."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

from pymongo.errors import BulkWriteError

from registry.storage.batching import Batcher, BatchLimits
from registry.storage.errors import StorageError, Unavailable
from registry.storage.records import Written
from registry.storage.transactions import (
    Committed,
    Transaction,
    TransactionConflict,
    Transactions,
)
from registry.storage.writes.unit_of_work import UnitOfWork, WriteOutcome, WriteRequest
from registry.storage.writes_in_progress import WritesInProgress

_MAX_BATCH_SIZE = 128
"""Requests per batch. In batches of one, a write takes 11.6 times the CPU time."""

_ATTEMPTS = 2
"""Attempts to write a batch as a whole. Most conflicts are with updates that take milliseconds."""

_MAX_IDENTIFIERS = 1_000
"""Resource identifiers per transaction: more may exceed a limit of the database."""


class LinkWrites:
    """Creates and updates resources together with their links.

    One batch is in flight at a time, as parallel transactions would conflict with each other.
    large_transactions: those of large requests, whose retries do not delay the others.
    """

    def __init__(
        self,
        transactions: Transactions,
        large_transactions: Transactions,
        writes: WritesInProgress,
    ) -> None:
        self._transactions = transactions
        self._large_transactions = large_transactions
        self._writes = writes
        self._batcher = Batcher[WriteRequest, Written | None](
            self._write, name="link_writes", limits=BatchLimits(_MAX_BATCH_SIZE)
        )

    async def write(self, request: WriteRequest) -> Written | None:
        """Return the written record, None if there is none to update.

        Raises Unavailable, or the error that `UnitOfWork.apply` returns as the outcome.
        """
        try:
            return await self._batcher.load(request)
        except TransactionConflict:  # Retry it alone, so that the rest of the batch does not wait.
            return await self._writes.begin(_write_alone(request, self._transactions))

    async def write_large(self, request: WriteRequest) -> Written | None:
        """Do the same as `write` in a transaction of its own: a large request delays its batch."""
        return await _write_alone(request, self._large_transactions)

    async def close(self) -> None:
        """Wait until the batches under way have ended."""
        await self._batcher.close()

    async def _write(self, requests: Sequence[WriteRequest]) -> list[WriteOutcome]:
        return [outcome for batch in _split(requests) for outcome in await self._write_batch(batch)]

    async def _write_batch(
        self, requests: Sequence[WriteRequest], attempts: int = _ATTEMPTS
    ) -> Sequence[WriteOutcome]:
        """Write in one transaction; if that conflicts or is rejected, in two, and so on."""
        error: StorageError
        for _ in range(attempts):
            try:
                return _outcomes(await self._transactions.attempt(_unit_of_work(requests)))
            except TransactionConflict as conflict:
                error = conflict
            except Unavailable as unavailable:
                error = unavailable
                break
        is_separable = isinstance(error, TransactionConflict) or isinstance(
            error.__cause__, BulkWriteError
        )
        if len(requests) == 1 or not is_separable:
            return [error] * len(requests)
        half = len(requests) // 2
        return [
            outcome
            for part in (requests[:half], requests[half:])
            for outcome in await self._write_batch(part, attempts=1)
        ]


async def _write_alone(request: WriteRequest, transactions: Transactions) -> Written | None:
    (outcome,) = _outcomes(await transactions.run(_unit_of_work([request])))
    if isinstance(outcome, StorageError):
        raise outcome
    return outcome


def _unit_of_work(
    requests: Sequence[WriteRequest],
) -> Callable[[Transaction], Awaitable[list[WriteOutcome]]]:
    return lambda transaction: UnitOfWork(transaction).apply(requests)


def _outcomes(committed: Committed[list[WriteOutcome]]) -> list[WriteOutcome]:
    return [
        replace(outcome, time=committed.time) if isinstance(outcome, Written) else outcome
        for outcome in committed.result
    ]


def _split(requests: Sequence[WriteRequest]) -> Iterator[list[WriteRequest]]:
    batch: list[WriteRequest] = []
    identifiers = 0
    for request in requests:
        added = request.change.size
        if batch and identifiers + added > _MAX_IDENTIFIERS:
            yield batch
            batch, identifiers = [], 0
        batch.append(request)
        identifiers += added
        if request.is_read_back:
            yield batch
            batch, identifiers = [], 0
    if batch:
        yield batch
