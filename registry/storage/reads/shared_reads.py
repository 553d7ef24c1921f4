"""What the reads of all requests share: lookups and pages in progress, and indexes of ids.

Lookups by id or foreign key share queries. Without that, reading a resource takes 2.8 times the CPU
time, a page with `include` 1.5 times. So do pages in the order of the ids: without that, at 16
connections, a page of 50 takes twice the CPU time of the service and of mongod to read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from functools import partial
from typing import Any, TypeAlias

from bson.timestamp import Timestamp

from registry.capacity import (
    LOOKUPS_OF_MANY,
    LOOKUPS_OF_ONE,
    PAGES_BY_ID,
    UNSHARED_LOOKUPS,
    BatchLimits,
    Capacity,
)
from registry.jsonapi.pagination import Window
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.offloading import in_chunks
from registry.storage.bulkheads import Bulkheads
from registry.storage.errors import translated_errors
from registry.storage.mongo.batching import Batcher, BatchFunction, Coalescer
from registry.storage.mongo.read_commands import (
    Command,
    ReadCommands,
    ReadResult,
    aggregate_command,
    find_command,
)
from registry.storage.reads.id_index import IdIndex
from registry.storage.records import Stage, id_condition, projection

_Lookup: TypeAlias = tuple[Collection[int], tuple[str, ...]]
"""The ids to look up, and the stored fields to return."""

_MAX_SHARED_IDS = 1_000
"""A lookup of more ids than this is not batched, as it would delay smaller ones."""

_MAX_QUERY_IDS = 100_000
"""Ids in a query, which is limited to 16 MiB; an id takes up to 16 bytes."""

_QUERY_INDEX = "_query"
"""The field of a record that holds the index of the range query that returned it."""


class Reads:
    """The reads of one database.

    seconds: the time limit of a query. total_seconds: that of a page with its wait. unindexed: the
    types whose indexes are not complete. The records that the methods return are shared with other
    requests: callers must not modify them, and they may have more fields. time: that of the
    snapshot to read; None for the latest.
    """

    def __init__(
        self,
        commands: ReadCommands,
        graph: Graph,
        capacity: Capacity,
        bulkheads: Bulkheads,
        unindexed: Collection[str],
    ) -> None:
        self.commands = commands
        self.graph = graph
        self.bulkheads = bulkheads
        self.unindexed = unindexed
        self.seconds = capacity.query_seconds
        self.milliseconds = round(capacity.query_seconds * 1_000)
        self.total_seconds = capacity.queue_seconds + capacity.query_seconds
        self.id_indexes = {name: IdIndex(commands, one.collection) for name, one in graph.items()}
        self._unshared = asyncio.Semaphore(UNSHARED_LOOKUPS)
        self.pages = Coalescer[tuple[Window, Timestamp | None]]("pages")
        self._batchers: dict[Hashable, Batcher[Any, ReadResult]] = {}

    async def close(self) -> None:
        """Close the change streams, and end the sessions."""
        for index in self.id_indexes.values():
            await index.close()
        await self.commands.close()

    async def look_up(
        self,
        resource_type: ResourceType,
        field: str,
        keys: Collection[int],
        fields: tuple[str, ...],
        time: Timestamp | None,
    ) -> ReadResult:
        """Return the records in which a field has one of the keys, at least one.

        fields: the stored fields to return. Raises Unavailable.
        """
        if len(keys) <= _MAX_SHARED_IDS:
            is_single = len(keys) == 1
            key = resource_type, field, is_single, time
            batcher = self._batchers.get(key) or self._new_batcher(
                key,
                "lookups",
                LOOKUPS_OF_ONE if is_single else LOOKUPS_OF_MANY,
                partial(self._look_up_batch, resource_type, field, time),
            )
            return await batcher.load((keys, fields))
        commands = [
            find_command(resource_type.collection, {field: {"$in": some}}, projection(fields))
            for some in split(keys)
        ]
        return await self.read_unshared(commands, time)

    async def read_unshared(self, commands: list[Command], time: Timestamp | None) -> ReadResult:
        """Return what commands find, one at least, at one point in time. Raises Unavailable."""
        first, *others = commands
        with translated_errors():
            async with self._unshared:
                result = await self.commands.run(first, time)
                for command in others:
                    result.records.extend((await self.commands.run(command, result.time)).records)
        return result

    async def read_range(self, command: Command, time: Timestamp | None) -> ReadResult:
        """Return what a `find` command returns that sorts by the id.

        Those that wait together are sent as one union. Raises PyMongoError.
        """
        collection = command["find"]
        key = collection, time
        batcher = self._batchers.get(key) or self._new_batcher(
            key, "range_scans", PAGES_BY_ID, partial(self._read_ranges, collection, time)
        )
        return await batcher.load(command)

    def _new_batcher(
        self,
        key: tuple[Any, ...],
        name: str,
        limits: BatchLimits,
        batch_fn: BatchFunction[Any, ReadResult],
    ) -> Batcher[Any, ReadResult]:
        """Return a batcher, kept under a key whose last member is the time of its reads."""
        is_past = key[-1] is not None
        batcher = self._batchers[key] = Batcher(
            batch_fn,
            name=name,
            limits=limits,
            on_idle=partial(self._batchers.pop, key) if is_past else None,
            is_cancellable=True,
        )
        return batcher

    async def _look_up_batch(
        self,
        resource_type: ResourceType,
        field: str,
        time: Timestamp | None,
        lookups: Sequence[_Lookup],
    ) -> list[ReadResult]:
        keys, fields = lookups[0]
        if len(lookups) > 1:
            keys = set[int]().union(*[keys for keys, _ in lookups])
            fields = tuple(set[str]().union(*[fields for _, fields in lookups]))
        query = {field: id_condition(list(keys))}
        command = find_command(resource_type.collection, query, projection(fields))
        with translated_errors():
            if time:
                result = await self.read_unshared([command], time)
            else:
                result = await self.commands.run(command)
        if len(lookups) == 1:
            return [result]
        records, time = result
        by_key: dict[int, list[Record]] = defaultdict(list)
        async for chunk in in_chunks(records):
            for record in chunk:
                if not isinstance(key := record[field], int):  # only requests for it should fail
                    look_up = partial(self._look_up_batch, resource_type, field, time)
                    return [(await look_up([one]))[0] for one in lookups]
                by_key[key].append(record)
        return [
            ReadResult([record for key in keys for record in by_key.get(key, ())], time)
            for keys, _ in lookups
        ]

    async def _read_ranges(
        self, collection: str, time: Timestamp | None, commands: Sequence[Command]
    ) -> Sequence[ReadResult]:
        if len(commands) == 1:
            return [await self.commands.run(commands[0], time)]
        first, *others = map(_range_stages, range(len(commands)), commands)
        unions = [{"$unionWith": {"coll": collection, "pipeline": stages}} for stages in others]
        found, time = await self.commands.run(
            aggregate_command(collection, [*first, *unions]), time
        )
        results: list[list[Record]] = [[] for _ in commands]
        for record in found:
            results[record.pop(_QUERY_INDEX)].append(record)
        return [ReadResult(records, time) for records in results]


def _range_stages(index: int, command: Command) -> list[Stage]:
    """Return the pipeline that finds what a command does, and marks it with this index."""
    return [
        {"$match": command["filter"]},
        {"$sort": command["sort"]},
        {"$skip": command["skip"]},
        {"$limit": command["limit"]},
        {"$project": {**command["projection"], _QUERY_INDEX: {"$literal": index}}},
    ]


def split(ids: Collection[int]) -> list[list[int]]:
    """Return the ids in parts, each for one query."""
    all_ids = list(ids)
    return [
        all_ids[start : start + _MAX_QUERY_IDS] for start in range(0, len(all_ids), _MAX_QUERY_IDS)
    ]
