"""Creation of resources without links, but with idempotency keys: requests share a transaction."""

from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from registry.jsonapi.changes import Change
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.idempotency import IdempotencyKey, StoredResults
from registry.storage.transactions import Transaction, Transactions
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.new_records import BATCH_LIMITS, new_records

_Creation: TypeAlias = tuple[Change, IdempotencyKey]


class KeyedInsertions:
    """Creates resources of one type whose idempotency keys are expected to be new.

    It takes fewer commands than LinkWrites, which is needed if a key already has a result.
    """

    def __init__(self, resource: Resource, transactions: Transactions, counters: Counters) -> None:
        self._resource = resource
        self._transactions = transactions
        self._counters = counters
        self._batcher = Batcher[_Creation, Record](
            self._insert, name="keyed_insertions", limits=BATCH_LIMITS
        )

    async def insert(self, change: Change, key: IdempotencyKey) -> Record:
        """Store a new resource and the result of its request; return its record.

        Raises Unavailable, or TransactionConflict: then nothing of the batch is written, usually
        because one of its keys has a result.
        """
        return await self._batcher.load((change, key))

    async def close(self) -> None:
        """Wait until the batches under way have ended."""
        await self._batcher.close()

    async def _insert(self, creations: Sequence[_Creation]) -> list[Record]:
        changes, keys = zip(*creations, strict=True)
        records = await new_records(self._resource, changes, self._counters)
        await self._transactions.attempt(partial(self._insert_in, records, keys))
        return records

    async def _insert_in(
        self, records: Sequence[Record], keys: Sequence[IdempotencyKey], transaction: Transaction
    ) -> None:
        results = StoredResults(transaction)
        for record, key in zip(records, keys, strict=True):
            results.add(key, [(self._resource, record)])
        await results.flush()
        await transaction.insert(self._resource.collection, records)
