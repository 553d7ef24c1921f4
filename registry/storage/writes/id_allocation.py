"""Allocation of integer ids: from 1 and never reused; a failure may leave a gap."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pymongo
from motor.motor_asyncio import AsyncIOMotorClientSession, AsyncIOMotorCollection
from pymongo import ReturnDocument

from registry.jsonapi.changes import Verb, Write
from registry.jsonapi.error_objects import RequestError
from registry.model.graph import Graph
from registry.model.record import Record
from registry.storage.errors import translated_errors
from registry.storage.mongo.mongo_client import Database

_FIRST_BLOCK, _LARGEST_BLOCK = 8, 1_024
"""Ids in a block. The size doubles each time: a process that ends early wastes few, a busy one has
the next block before it needs it. A request for more ids gets a larger block."""

_SECONDS = 5.0
"""The time limit of a command."""

_CLOSE_SECONDS = 1.0
"""How long to give ids back: a stop must not wait for a database that is gone."""


async def greatest_id(
    collection: AsyncIOMotorCollection[Record], session: AsyncIOMotorClientSession | None = None
) -> int:
    """Return the greatest id in a collection, 0 if it is empty. Raises PyMongoError."""
    newest = await collection.find_one(
        {"_id": {"$type": ["int", "long"], "$gt": 0}},
        {"_id": True},
        sort=[("_id", -1)],
        session=session,
    )
    return newest["_id"] if newest else 0


class Counters:
    """One counter per type: `{_id: "person", seq: <last id allocated>}`.

    Each process fetches blocks of ids ahead. A counter is acknowledged by the majority before any
    id of a block is used, so no failover hands out an id again. The unique index of `_id` protects
    against ids of external writers only, on a sharded cluster if `_id` is the shard key.
    """

    def __init__(self, database: Database, graph: Graph) -> None:
        self._database = database
        self._graph = graph
        self._blocks = {name: _Blocks(database.counters, name) for name in graph}

    async def prepare(self) -> None:
        """Continue each counter above the greatest stored id. Raises PyMongoError."""
        for resource in self._graph.values():
            last = await greatest_id(self._database[resource.collection])
            await self._database.counters.update_one(
                {"_id": resource.type}, {"$max": {"seq": last}}, upsert=True
            )
            self._blocks[resource.type].skip(last)

    async def assign(self, writes: Sequence[Write], *, merging: bool = False) -> dict[int, int]:
        """Return an id that no resource of its type ever had for each placeholder of a creation.

        merging: for the writes that merge, instead of all others. Raises Unavailable.
        """
        created: dict[str, list[int]] = defaultdict(list)
        for write in writes:
            if write.verb is Verb.ADD and write.merges is merging and write.target.id is not None:
                created[write.resource.type].append(write.target.id)
        ids: dict[int, int] = {}
        for type_name, placeholders in created.items():
            allocated = await self.allocate(type_name, len(placeholders))
            ids.update(zip(placeholders, allocated, strict=True))
        return ids

    async def allocate(self, type_name: str, count: int) -> list[int]:
        """Return so many ids that no resource of a type ever had. Raises Unavailable."""
        return await self._blocks[type_name].take(count)

    async def skip_taken(self) -> None:
        """Continue above the ids that external writers have stored. Raises Unavailable."""
        with translated_errors(), pymongo.timeout(_SECONDS):
            await self.prepare()

    async def close(self) -> None:
        """Give unused ids back, so that a restart leaves no gap, unless there are newer ones."""
        with suppress(RequestError, TimeoutError), pymongo.timeout(_CLOSE_SECONDS):
            async with asyncio.timeout(_CLOSE_SECONDS):
                for blocks in self._blocks.values():
                    await blocks.give_back()


class _Blocks:
    """The unused ids of one type that this process has fetched, ascending."""

    def __init__(self, counters: AsyncIOMotorCollection[Record], type_name: str) -> None:
        self._counters = counters
        self._type = type_name
        self._unused: deque[int] = deque()
        self._block_size = _FIRST_BLOCK
        self._fetching: asyncio.Task[None] | None = None
        self._last_taken = 0

    async def take(self, count: int) -> list[int]:
        """Remove and return the lowest unused ids. Raises Unavailable."""
        while (missing := count - len(self._unused)) > 0:
            await asyncio.shield(self._fetch(missing))
        ids = [self._unused.popleft() for _ in range(count)]
        if len(self._unused) < self._block_size // 4:
            self._fetch(0)
        return ids

    def skip(self, last: int) -> None:
        """Never return ids up to this one, which external writers have used."""
        self._last_taken = last
        self._unused = deque(id_ for id_ in self._unused if id_ > last)

    async def give_back(self) -> None:
        """Decrease the counter to the last used id, if no other process has ids above it."""
        if self._fetching is not None:
            await asyncio.wait([self._fetching])
        with translated_errors():
            while self._unused:
                last = first = self._unused.pop()
                while self._unused and self._unused[-1] == first - 1:
                    first = self._unused.pop()
                query, update = {"_id": self._type, "seq": last}, {"seq": first - 1}
                if not (await self._counters.update_one(query, {"$set": update})).modified_count:
                    self._unused.clear()

    def _fetch(self, count: int) -> asyncio.Task[None]:
        """Fetch a block of at least `count` ids, unless one is on the way."""
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch_block(max(count, self._block_size)))
            self._fetching.add_done_callback(retrieve_error)
        return self._fetching

    async def _fetch_block(self, size: int) -> None:
        with translated_errors(), pymongo.timeout(_SECONDS):
            counter = await self._counters.find_one_and_update(
                {"_id": self._type},
                {"$inc": {"seq": size}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        last = counter["seq"]
        self._unused.extend(range(max(last - size, self._last_taken) + 1, last + 1))
        self._block_size = min(2 * size, _LARGEST_BLOCK)


def retrieve_error(task: asyncio.Future[Any]) -> None:
    """Mark the error of a task as retrieved, as perhaps nobody waits for it."""
    if not task.cancelled():
        task.exception()
