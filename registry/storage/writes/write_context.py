"""The write paths of one database, and what they share."""

import asyncio

from registry.model.graph import Graph
from registry.storage.client import Database
from registry.storage.orphaned_transactions import OrphanedTransactions
from registry.storage.reads.commands import ReadCommands
from registry.storage.transactions import Transactions
from registry.storage.writes.attribute_updates import AttributeUpdates
from registry.storage.writes.commands import WriteCommands
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.insertions import Insertions
from registry.storage.writes.keyed_insertions import KeyedInsertions
from registry.storage.writes.link_writes import LinkWrites
from registry.storage.writes_in_progress import WritesInProgress

_MAX_SMALL_TRANSACTIONS = 16
"""Deletions and atomic operations in progress, each of which takes a thread."""


class WriteContext:
    """The write paths of one database, and the limits and transactions that they share.

    in_progress: the writes that have begun. transactions, large_transactions: those of small and of
    large requests, whose retries do not delay the others. small_transactions: limits those that
    take a thread each. insertions, keyed_insertions, attribute_updates: by resource.
    """

    def __init__(self, database: Database, graph: Graph, commands: ReadCommands) -> None:
        orphans = OrphanedTransactions(database)
        self.counters = Counters(database, graph)
        self.in_progress = WritesInProgress()
        self.transactions = Transactions(database, graph, orphans)
        self.large_transactions = Transactions(database, graph, orphans)
        self.small_transactions = asyncio.Semaphore(_MAX_SMALL_TRANSACTIONS)
        self.link_writes = LinkWrites(self.transactions, self.large_transactions, self.in_progress)
        commands_of = {one: WriteCommands(database, commands, one) for one in graph.values()}
        self.insertions = {
            one: Insertions(one, own, self.counters, orphans, self.in_progress)
            for one, own in commands_of.items()
        }
        self.keyed_insertions = {
            one: KeyedInsertions(one, self.transactions, self.counters) for one in graph.values()
        }
        self.attribute_updates = {
            one: AttributeUpdates(one, own, orphans, self.in_progress)
            for one, own in commands_of.items()
        }

    async def close(self) -> None:
        """Wait until all writes have ended, then give back ids that were allocated ahead."""
        for batches in (self.insertions, self.keyed_insertions, self.attribute_updates):
            for one in batches.values():
                await one.close()
        await self.link_writes.close()
        await self.in_progress.ended()
        await self.transactions.close()
        await self.large_transactions.close()
        await self.counters.close()
