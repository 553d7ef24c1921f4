"""Writes that concern one resource each, which requests in flight make together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError, ConnectionFailure, NetworkTimeout, PyMongoError

from registry.jsonapi.errors import Unavailable
from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.client import answering_unavailable
from registry.storage.commands import Commands
from registry.storage.projections import visible
from registry.storage.records import batch_update, changes, new_record
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.unit_of_work import IdTaken
from registry.storage.writes.writer import Writer

_DUPLICATE_KEY = 11000

_log = logging.getLogger("registry")

_Update: TypeAlias = "tuple[int, Change]"

_MAX_BATCH_SIZE = 256
"""Resources that are written together."""

_MAX_IN_FLIGHT = 2
"""While the service builds the records of one, the database writes those of another."""


class AttributeWrites:
    """Creates and updates resources whose links stay as they are.

    Its methods raise Unavailable if the database does not answer, or refuses what is asked.
    """

    def __init__(self, commands: Commands, graph: Graph, counters: Counters) -> None:
        self._commands = commands
        self._records = {one.type: commands.database[one.collection] for one in graph.values()}
        self._counters = counters
        self._alone = Writer(commands.database, graph)
        self._inserts: dict[str, Batcher[Change, Record]] = {}
        self._updates: dict[str, Batcher[_Update, Record | None]] = {}
        for resource in graph.values():
            insert, update = partial(self._insert, resource), partial(self._update, resource)
            self._inserts[resource.type] = Batcher(
                insert, max_batch_size=_MAX_BATCH_SIZE, max_in_flight=_MAX_IN_FLIGHT
            )
            self._updates[resource.type] = Batcher(
                update, max_batch_size=_MAX_BATCH_SIZE, max_in_flight=_MAX_IN_FLIGHT
            )

    async def insert(self, resource: Resource, change: Change) -> Record:
        """Store a new resource and return its record. Raises IdTaken as `Writer.insert` does."""
        return await self._inserts[resource.type].load(change)

    async def update(self, resource: Resource, number: int, change: Change) -> Record | None:
        """Change the attributes of a resource and return its record, None if there is none."""
        return await self._updates[resource.type].load((number, change))

    async def _insert(
        self, resource: Resource, asked: Sequence[Change]
    ) -> Sequence[Record | Exception]:
        with answering_unavailable():
            ids = await self._counters.reserve(resource, len(asked))
            new = [new_record(resource, *one) for one in zip(ids, asked, strict=True)]
            try:
                refused = await self._insert_all(resource, new)
            except ConnectionFailure:
                # Some may be there, under ids that no other request has.
                cursor = self._records[resource.type].find(
                    {"_id": {"$in": list(ids)}}, {"_id": True}
                )
                stored = {record["_id"] for record in await cursor.to_list(None)}
                missing = [record for record in new if record["_id"] not in stored]
                found = await self._insert_all(resource, missing)
                # An id that is taken by now shows that the first attempt came through after all.
                refused = {id_: why for id_, why in found.items() if not isinstance(why, IdTaken)}
        return [refused.get(record["_id"], record) for record in new]

    async def _insert_all(
        self, resource: Resource, records: list[Record]
    ) -> dict[int, Record | Exception]:
        """Insert records; return by its id why one is refused."""
        if not records:
            return {}
        try:
            await self._records[resource.type].insert_many(records, ordered=False)
        except BulkWriteError as error:
            return {records[index]["_id"]: why for index, why in _refusals(error).items()}
        return {}

    async def _update(
        self, resource: Resource, asked: Sequence[_Update]
    ) -> Sequence[Record | Exception | None]:
        """Make the changes, and read what each has led to before the next to the same resource."""
        results: dict[int, Record | Exception | None] = {}
        while waiting := [index for index in range(len(asked)) if index not in results]:
            first = {asked[index][0]: index for index in reversed(waiting)}
            turn = sorted(first.values())
            made = await self._update_all(resource, [asked[index] for index in turn])
            results.update(zip(turn, made, strict=True))
        return [results[index] for index in range(len(asked))]

    async def _update_all(
        self, resource: Resource, asked: Sequence[_Update]
    ) -> list[Record | Exception | None]:
        """Change resources of which each is there once."""
        if len(asked) == 1:
            with answering_unavailable():
                return [await self._alone.update(resource, *asked[0])]
        numbers = [number for number, _ in asked]
        ones = {
            "filter": {"_id": {"$in": numbers}},
            "projection": visible(resource),
            "batchSize": len(numbers) + 1,
        }
        with answering_unavailable():
            refused = await self._change_all(resource, asked)
            found = await self._commands.find_all(resource.collection, "find", ones)
        known = {record["_id"]: record for record in found}
        return [refused.get(index, known.get(number)) for index, number in enumerate(numbers)]

    async def _change_all(
        self, resource: Resource, asked: Sequence[_Update]
    ) -> dict[int, Exception]:
        """Change records; return by its place why a change is refused."""
        chosen = {"_id": {"$in": [number for number, _ in asked]}}
        joint = batch_update(resource, asked)
        try:
            # Takes MongoDB half as long as an update for each, which it would have to remember.
            await self._commands.change_all(resource.collection, chosen, joint)
        except NetworkTimeout:
            raise  # who has waited so long is not to wait again
        except PyMongoError as error:
            # How many it has changed is not known; changed once more, only their version differs.
            _log.info("A joint change is made one by one: %s", error)
            return await self._change_each(resource, asked)
        return {}

    async def _change_each(
        self, resource: Resource, asked: Sequence[_Update]
    ) -> dict[int, Exception]:
        requests = [UpdateOne({"_id": number}, changes(resource, one)) for number, one in asked]
        try:
            await self._records[resource.type].bulk_write(requests, ordered=False)
        except BulkWriteError as error:
            return _refusals(error)
        return {}


def _refusals(error: BulkWriteError) -> dict[int, Exception]:
    """Return by its place why a write is refused. Raises the error if it is about all of them."""
    problems = error.details["writeErrors"]
    if error.details["writeConcernErrors"] or not problems:
        raise error
    return {
        problem["index"]: IdTaken() if problem["code"] == _DUPLICATE_KEY else Unavailable()
        for problem in problems
    }
