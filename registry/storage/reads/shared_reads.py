"""What the reads of all requests share: lookups, pages and reads of counters in progress.

Lookups by id or foreign key share queries. Without that, reading a resource takes 2.8 times the CPU
time, a page with `include` 1.5 times. So do pages in the order of the ids: without that, at 16
connections, a page of 50 takes twice the CPU time of the service and of mongod to read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from bson.timestamp import Timestamp
from pymongo import ASCENDING

from registry.capacity import (
    COUNTER_READS,
    LOOKUPS_OF_MANY,
    LOOKUPS_OF_ONE,
    PAGES_BY_ID,
    UNSHARED_LOOKUPS,
    BatchLimits,
    Capacity,
)
from registry.jsonapi.pagination import Window
from registry.model.graph import Graph
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.storage.bulkheads import Bulkheads
from registry.storage.counters import COUNTERS, FIELDS, IdCounter
from registry.storage.errors import translated_errors
from registry.storage.mongo.batching import Batcher, BatchFunction, Coalescer
from registry.storage.mongo.read_commands import (
    Command,
    ReadCommands,
    ReadResult,
    aggregate_command,
    find_command,
)
from registry.storage.records import Stage, id_condition, projection

_Lookup: TypeAlias = tuple[Collection[int], tuple[str, ...]]
"""The ids to look up, and the stored fields to return."""

MAX_IDS = 1_000
"""Ids in a lookup: one of more would delay those that share its query."""

_QUERY_INDEX = "_query"
"""The field of a record that holds the index of the range query that returned it."""


class TooManyMembers(Exception):
    """Resources have more members than one query may return.

    id: the resource at which that was exceeded; those with lower ids do not have too many.
    """

    def __init__(self, id_: int) -> None:
        super().__init__(f"exceeded at {id_}")
        self.id = id_


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
        self.capacity = capacity
        self.seconds = capacity.query_seconds
        self.milliseconds = round(capacity.query_seconds * 1_000)
        self.total_seconds = capacity.queue_seconds + capacity.query_seconds
        self._unshared = asyncio.Semaphore(UNSHARED_LOOKUPS)
        self.pages = Coalescer[tuple[Window, Timestamp | None]]("pages")
        self._batchers: dict[Hashable, Batcher[Any, Any]] = {}

    async def close(self) -> None:
        """End the sessions."""
        await self.commands.close()

    async def look_up(
        self,
        resource_type: ResourceType,
        ids: Collection[int],
        fields: tuple[str, ...],
        time: Timestamp | None,
    ) -> ReadResult:
        """Return the records with these ids, from one to MAX_IDS.

        fields: the stored fields to return. Raises Unavailable.
        """
        batch = partial(self._look_up_batch, resource_type, time)
        return await self._lookups(resource_type, ID, ids, time, batch).load((ids, fields))

    async def read_counter(
        self, resource_type: ResourceType, time: Timestamp | None
    ) -> tuple[IdCounter, Timestamp]:
        """Return the counter of a type, and the time of the snapshot. Raises PyMongoError."""
        key = COUNTERS, time
        batcher = self._batchers.get(key) or self._new_batcher(
            key, "counters", COUNTER_READS, partial(self._read_counters, time)
        )
        counters, time = await batcher.load(resource_type.type)
        return IdCounter.of(counters[0]), time

    async def _read_counters(
        self, time: Timestamp | None, types: Sequence[str]
    ) -> Sequence[ReadResult]:
        command = find_command(COUNTERS, {ID: {"$in": [*set(types)]}}, projection(FIELDS))
        found, time = await self.commands.run(command, time)
        return [
            ReadResult([record for record in found if record[ID] == name], time) for name in types
        ]

    async def read_members(
        self,
        resource_type: ResourceType,
        foreign_key: str,
        ids: Collection[int],
        fields: tuple[str, ...],
        time: Timestamp | None,
    ) -> ReadResult:
        """Return the records whose foreign key is one of these ids, from one to MAX_IDS.

        Raises TooManyMembers if one query may not return as many; or Unavailable.
        """
        batch = partial(self._read_members_batch, resource_type, foreign_key, time)
        lookups = self._lookups(resource_type, foreign_key, ids, time, batch)
        return await lookups.load((ids, fields))

    async def read_unshared(self, command: Command, time: Timestamp | None) -> ReadResult:
        """Return what a command finds. Raises Unavailable."""
        with translated_errors():
            async with self._unshared:
                return await self.commands.run(command, time)

    async def read_range(self, command: Command, time: Timestamp | None) -> ReadResult:
        """Return what a `find` command returns that sorts by the id.

        Those that wait together are sent as one union. Raises PyMongoError.
        """
        collection = command["find"]
        key = collection, time
        batcher = self._batchers.get(key) or self._new_batcher(
            key, "range_scans", PAGES_BY_ID, partial(self._read_ranges, collection, time)
        )
        result: ReadResult = await batcher.load(command)
        return result

    def _lookups(
        self,
        resource_type: ResourceType,
        field: str,
        ids: Collection[int],
        time: Timestamp | None,
        batch_fn: BatchFunction[_Lookup, ReadResult],
    ) -> Batcher[_Lookup, ReadResult]:
        """Return the batcher for lookups of as many ids."""
        is_single = len(ids) == 1
        key = resource_type, field, is_single, time
        limits = LOOKUPS_OF_ONE if is_single else LOOKUPS_OF_MANY
        return self._batchers.get(key) or self._new_batcher(key, "lookups", limits, batch_fn)

    def _new_batcher(
        self,
        key: tuple[Any, ...],
        name: str,
        limits: BatchLimits,
        batch_fn: BatchFunction[Any, Any],
    ) -> Batcher[Any, Any]:
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
        self, resource_type: ResourceType, time: Timestamp | None, lookups: Sequence[_Lookup]
    ) -> list[ReadResult]:
        ids, fields = _union(lookups)
        query = {ID: id_condition(list(ids))}
        command = find_command(resource_type.collection, query, projection(fields))
        records, time = result = await self._run(command, time)
        if len(lookups) == 1:
            return [result]
        by_id = {record[ID]: record for record in records}
        return [ReadResult([by_id[id_] for id_ in ids if id_ in by_id], time) for ids, _ in lookups]

    async def _read_members_batch(
        self,
        resource_type: ResourceType,
        foreign_key: str,
        time: Timestamp | None,
        lookups: Sequence[_Lookup],
    ) -> list[ReadResult | Exception]:
        """Read the members in the order of their owners until each request has all, or too many."""
        owners, fields = _union(lookups)
        most = self.capacity.members
        members: dict[int, list[Record]] = defaultdict(list)
        excess: dict[int, TooManyMembers] = {}  # by index of the lookup
        while owners:
            command = find_command(
                resource_type.collection,
                {foreign_key: id_condition(list(owners))},
                projection((foreign_key, *fields)),
                sort={foreign_key: ASCENDING},
                limit=most + 1,
            )
            result = await self._run(command, time)
            records, time = result
            if len(records) <= most and len(lookups) == 1 and not members:
                return [result]
            is_first = not members
            for record in records:
                members[record[foreign_key]].append(record)
            if is_first and len(records) <= most:
                break
            for index, (ids, _) in enumerate(lookups):
                id_ = _exceeded_at(ids, members, most)
                if id_ is not None and index not in excess:
                    excess[index] = TooManyMembers(id_)
            if len(records) <= most:
                break
            last = records[-1][foreign_key]  # which may have more
            del members[last]
            pending = (ids for index, (ids, _) in enumerate(lookups) if index not in excess)
            owners = {id_ for ids in pending for id_ in ids if id_ >= last}
        return [
            excess.get(index)
            or result._replace(records=[record for id_ in ids for record in members.get(id_, ())])
            for index, (ids, _) in enumerate(lookups)
        ]

    async def _run(self, command: Command, time: Timestamp | None) -> ReadResult:
        """Return what a command of a batch finds. Raises Unavailable."""
        if time:
            return await self.read_unshared(command, time)
        with translated_errors():
            return await self.commands.run(command)

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


def _union(lookups: Sequence[_Lookup]) -> _Lookup:
    """Return the ids and the fields of all lookups."""
    if len(lookups) == 1:
        return lookups[0]
    ids = set[int]().union(*[ids for ids, _ in lookups])
    return ids, tuple(set[str]().union(*[fields for _, fields in lookups]))


def _exceeded_at(
    ids: Collection[int], members: Mapping[int, Sequence[Record]], most: int
) -> int | None:
    """Return the id up to which there are too many members, if so many are known."""
    count = 0
    for id_ in sorted(ids):
        count += len(members.get(id_, ()))
        if count > most:
            return id_
    return None
