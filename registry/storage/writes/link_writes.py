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
from registry.storage.writes.unit_of_work import (
    RequestRejected,
    UnitOfWork,
    WriteOutcome,
    WriteRequest,
)
from registry.storage.writes_in_progress import WritesInProgress

_MAX_BATCH_SIZE = 128
"""Requests per batch. In batches of one, a write takes 11.6 times the CPU time."""

_ATTEMPTS = 2
"""Attempts to write a batch as a whole. Most conflicts are with updates that take milliseconds."""

_MAX_REJECTED = 4
"""Requests of a batch that may have values that other resources have. Each takes another attempt;
beyond, the rest of the batch is written separately, so that later batches do not wait."""

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

        Raises Unavailable, DuplicateValue, or the error that `UnitOfWork.apply` returns as the
        outcome.
        """
        try:
            return await self._batcher.load(request)
        except TransactionConflict:  # Retry it alone, so that the rest of the batch does not wait.
            return await self._writes.begin(_write_alone(request, self._transactions))

    async def write_large(self, request: WriteRequest) -> Written | None:
        """Do the same as `write`, in a transaction of its own: it would delay its batch."""
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
                return await self._attempt(requests)
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

    async def _attempt(self, requests: Sequence[WriteRequest]) -> list[WriteOutcome]:
        """Write in one transaction, but without the requests that MongoDB rejects.

        The outcome of those is TransactionConflict: the other resource with the same value may be
        one that the transaction would have written. Raises TransactionConflict or Unavailable.
        """
        left = dict(enumerate(requests))
        outcomes: dict[int, WriteOutcome] = dict.fromkeys(left, TransactionConflict())
        for _ in range(_MAX_REJECTED + 1):
            try:
                committed = await self._transactions.attempt(_unit_of_work(list(left.values())))
            except RequestRejected as rejected:
                index = list(left)[rejected.index]
                if len(left) == 1:
                    outcomes[index] = rejected.error
                    break
                del left[index]
            else:
                outcomes |= zip(left, _outcomes(committed), strict=True)
                break
        return [outcomes[index] for index in range(len(requests))]


async def _write_alone(request: WriteRequest, transactions: Transactions) -> Written | None:
    try:
        (outcome,) = _outcomes(await transactions.run(_unit_of_work([request])))
    except RequestRejected as rejected:
        raise rejected.error from None
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
    """Divide requests into transactions.

    They are bounded in identifiers, write each unique attribute once, and end with a request that
    is read back.
    """
    batch: list[WriteRequest] = []
    identifiers, set_unique = 0, set[tuple[str, int | None]]()
    for request in requests:
        added, resource = request.change.size, (request.resource.type, request.id)
        is_set_again = resource in set_unique and request.sets_unique
        is_too_large = identifiers + added > _MAX_IDENTIFIERS
        if batch and (is_too_large or is_set_again or batch[-1].is_read_back):
            yield batch
            batch, identifiers, set_unique = [], 0, set()
        batch.append(request)
        identifiers += added
        if request.sets_unique:
            set_unique.add(resource)
    yield batch
