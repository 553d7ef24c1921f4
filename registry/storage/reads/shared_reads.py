"""What the reads of all requests share: lookups, pages and reads of counters in progress.

Lookups by id or foreign key share queries. Without that, reading a resource takes 2.8 times the CPU
time, a page with `include` 1.5 times. So do pages in the order of the ids: without that, at 16
connections, a page of 50 takes twice the CPU time of the service and of mongod to read.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from bson.timestamp import Timestamp
from pymongo import ASCENDING

from registry.capacity import (
    COUNTER_READS,
    LOOKUPS_OF_MANY,
    LOOKUPS_OF_ONE,
    PAGES_BY_ID,
    PAST_READS,
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
from registry.storage.mongo.batching import Batcher, Coalescer
from registry.storage.mongo.read_commands import (
    Command,
    ReadCommands,
    ReadResult,
    aggregate_command,
    find_command,
)
from registry.storage.records import Stage, id_condition, projection

_Lookup: TypeAlias = tuple[Collection[int], tuple[str, ...]]
"""The values to look up, and the stored fields to return."""

MAX_IDS = 1_000
"""Values in a lookup: one of more would delay those that share its query."""

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
        self._past = asyncio.Semaphore(PAST_READS)
        self.pages = Coalescer[tuple[Window, Timestamp | None]]("pages")
        self._batchers: dict[Hashable, Batcher[Any, Any]] = {}

    def look_up(
        self,
        resource_type: ResourceType,
        field: str,
        values: Collection[int],
        fields: tuple[str, ...],
        time: Timestamp | None,
    ) -> Awaitable[ReadResult]:
        """Return the records that have one of these values in a field.

        field: the id, or a foreign key. values: from one to MAX_IDS. fields: the stored ones to
        return. Raises Unavailable; for a foreign key, also TooManyMembers.
        """
        limits = LOOKUPS_OF_ONE if len(values) == 1 else LOOKUPS_OF_MANY
        batcher = self._batcher("lookups", limits, self._look_up_batch, resource_type, field, time)
        return batcher.load((values, fields))

    def read_range(self, command: Command, time: Timestamp | None) -> Awaitable[ReadResult]:
        """Return what a `find` command returns that sorts by the id. Raises Unavailable.

        Commands that wait together are sent as one union.
        """
        batcher = self._batcher(
            "range_scans", PAGES_BY_ID, self._read_ranges, command["find"], time
        )
        return batcher.load(command)

    def read_counter(
        self, resource_type: ResourceType, time: Timestamp | None
    ) -> Awaitable[tuple[IdCounter, Timestamp]]:
        """Return the counter of a type, and the time of the snapshot. Raises Unavailable."""
        batcher = self._batcher("counters", COUNTER_READS, self._read_counters, time)
        return batcher.load(resource_type.type)

    async def run(self, command: Command, time: Timestamp | None) -> ReadResult:
        """Return what a command finds. Raises Unavailable."""
        with translated_errors():
            async with self._past if time else nullcontext():
                return await self.commands.run(command, time)

    def _batcher(
        self,
        name: str,
        limits: BatchLimits,
        batch_fn: Callable[..., Awaitable[Sequence[Any]]],
        *common: Hashable,
    ) -> Batcher[Any, Any]:
        """Return the batcher for reads of one kind.

        common: what the reads of a batch have in common, with the time as the last of it.
        batch_fn: takes these values, then the reads.
        """
        key = name, limits.max_size, *common
        batcher = self._batchers.get(key)
        if batcher is None:
            is_past = common[-1] is not None
            batcher = self._batchers[key] = Batcher(
                partial(batch_fn, *common),
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
    ) -> Sequence[ReadResult | Exception]:
        values, fields = _union(lookups)
        query = {field: id_condition(list(values))}
        command = find_command(resource_type.collection, query, projection((field, *fields)))
        most = self.capacity.members
        if field != ID:
            command |= {"sort": {field: ASCENDING}, "limit": most + 1}
        records, time = result = await self.run(command, time)
        if field != ID and len(records) > most:
            last = records[-1][field]
            if all(len(each) == len(values) for each, _ in lookups):  # all look up the same
                return [TooManyMembers(last) for _ in lookups]
            complete, batches = _divided(lookups, last)
            load = partial(self._look_up_batch, resource_type, field, time)
            parts = await asyncio.gather(
                *(load([lookups[index] for index in batch]) for batch in batches)
            )
            found = _results([lookups[index] for index in complete], field, result)
            results = dict(zip(chain(complete, *batches), chain(found, *parts), strict=True))
            return [results[index] for index in range(len(lookups))]
        return [result] if len(lookups) == 1 else _results(lookups, field, result)

    async def _read_counters(
        self, time: Timestamp | None, types: Sequence[str]
    ) -> Sequence[tuple[IdCounter, Timestamp]]:
        command = find_command(COUNTERS, {ID: {"$in": [*set(types)]}}, projection(FIELDS))
        found, time = await self.run(command, time)
        counters = {record[ID]: IdCounter.of(record) for record in found}
        return [(counters[name], time) for name in types]

    async def _read_ranges(
        self, collection: str, time: Timestamp | None, commands: Sequence[Command]
    ) -> Sequence[ReadResult]:
        if len(commands) == 1:
            return [await self.run(commands[0], time)]
        first, *others = map(_range_stages, range(len(commands)), commands)
        unions = [{"$unionWith": {"coll": collection, "pipeline": stages}} for stages in others]
        found, time = await self.run(aggregate_command(collection, [*first, *unions]), time)
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
    """Return the values and the fields of all lookups."""
    if len(lookups) == 1:
        return lookups[0]
    values = set[int]().union(*[values for values, _ in lookups])
    return values, tuple(set[str]().union(*[fields for _, fields in lookups]))


def _results(lookups: Sequence[_Lookup], field: str, found: ReadResult) -> list[ReadResult]:
    """Return the result of each lookup: the records among those found that have its values."""
    by_value: dict[int, list[Record]] = defaultdict(list)
    for record in found.records:
        by_value[record[field]].append(record)
    return [
        ReadResult([record for value in values for record in by_value.get(value, ())], found.time)
        for values, _ in lookups
    ]


def _divided(lookups: Sequence[_Lookup], value: int) -> tuple[list[int], list[list[int]]]:
    """Divide lookups whose records are known up to a value; return the indexes of each part.

    First those that are complete, then batches to read: of those that look up the value, and of the
    others; of each alone, if all look it up.
    """
    complete, having, others = list[int](), list[int](), list[int]()
    for index, (values, _) in enumerate(lookups):
        if value in values:
            having.append(index)
        else:
            (complete if max(values) < value else others).append(index)
    if len(having) == len(lookups):
        return [], [[index] for index in having]
    return complete, [batch for batch in (having, others) if batch]
