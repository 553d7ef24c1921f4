"""Writes that change links, which requests in flight make together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase
from pymongo.errors import BulkWriteError

from registry.jsonapi.errors import Unavailable
from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.client import answering_unavailable
from registry.storage.records import Versions
from registry.storage.transactions import Transactions
from registry.storage.writes.unit_of_work import LinkChange, UnitOfWork

_MAX_BATCH_SIZE = 128
"""Requests that are answered together."""

_IDENTIFIERS_A_TRANSACTION = 1_000
"""A request that names more has a transaction of its own: it may fail where others do not."""


class LinkWrites:
    """Creates and updates resources together with their links.

    Requests in flight share a transaction, and one is under way at a time: several would make each
    other lose. Its methods raise Unavailable as `Transactions.run` does, or if the database does
    not answer or refuses what is asked.
    """

    def __init__(
        self,
        database: AsyncIOMotorDatabase[dict[str, Any]],
        graph: Graph,
        transactions: Transactions,
    ) -> None:
        self._database = database
        self._graph = graph
        self._transactions = transactions
        self._shared = Batcher[LinkChange, Record | None](
            self._send, max_batch_size=_MAX_BATCH_SIZE
        )

    async def insert(self, resource: Resource, number: int, change: Change) -> Record:
        """Store a new resource with its links. Returns and raises what `Writer.insert` does."""
        record = await self._shared.load(LinkChange(resource, number, change, new=True))
        assert record is not None  # noqa: S101 - for mypy: what is new is there
        return record

    async def update(
        self, resource: Resource, number: int, change: Change, versions: Versions
    ) -> Record | None:
        """Change a resource and its links. Returns and raises what `Writer.update` does."""
        return await self._shared.load(LinkChange(resource, number, change, versions))

    async def _send(self, asked: Sequence[LinkChange]) -> list[Record | Exception | None]:
        return [made for some in _portions(asked) for made in await self._make(some)]

    async def _make(self, asked: Sequence[LinkChange]) -> Sequence[Record | Exception | None]:
        """Make changes in one transaction, or each in its own if the database refuses a record."""
        try:
            with answering_unavailable():
                return await self._transactions.run(
                    lambda session: UnitOfWork(self._database, self._graph, session).make(asked)
                )
        except Unavailable as error:
            if len(asked) == 1 or not isinstance(error.__cause__, BulkWriteError):
                return [error] * len(asked)
        return [made for one in asked for made in await self._make([one])]


def _portions(asked: Sequence[LinkChange]) -> Iterator[list[LinkChange]]:
    portion: list[LinkChange] = []
    identifiers = 0
    for one in asked:
        more = sum(len(linkage.identifiers) for linkage in one.change.linkages)
        if portion and identifiers + more > _IDENTIFIERS_A_TRANSACTION:
            yield portion
            portion, identifiers = [], 0
        portion.append(one)
        identifiers += more
    yield portion
