"""Creation of resources without links, but with idempotency keys: requests share a transaction."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from registry.jsonapi.request_documents import Change
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.idempotency import IdempotencyKey, StoredResults
from registry.storage.records import new_record
from registry.storage.transactions import Transaction, Transactions

_Creation: TypeAlias = tuple[Record, IdempotencyKey]

_MAX_BATCH_SIZE = 256
"""Resources per batch. One batch is in flight: a transaction takes three commands, and with two in
flight, each of half the size, a creation would take 1.2 times the CPU time."""


class KeyedInsertions:
    """Creates resources of one type whose idempotency keys are expected to be new.

    It takes fewer commands than LinkWrites, which has to be used if a key is not.
    """

    def __init__(self, resource: Resource, transactions: Transactions) -> None:
        self._resource = resource
        self._transactions = transactions
        self._batcher = Batcher[_Creation, None](self._insert, max_batch_size=_MAX_BATCH_SIZE)

    async def insert(self, id_: int, change: Change, key: IdempotencyKey) -> Record:
        """Store a new resource and the result of its request; return its record.

        Raises Unavailable, or TransactionConflict: then nothing of the batch is written, usually
        because one of its keys has a result.
        """
        record = new_record(self._resource, id_, change)
        await self._batcher.load((record, key))
        return record

    async def close(self) -> None:
        """Wait until the batches under way have ended."""
        await self._batcher.close()

    async def _insert(self, creations: Sequence[_Creation]) -> list[None]:
        await self._transactions.attempt(partial(self._insert_in, creations))
        return [None] * len(creations)

    async def _insert_in(self, creations: Sequence[_Creation], transaction: Transaction) -> None:
        results = StoredResults(transaction)
        for record, key in creations:
            results.add(key, [(self._resource, record)])
        await results.flush()
        await transaction.insert(self._resource.collection, [record for record, _ in creations])
