"""Queries on one collection: filtered, sorted, with a limit and an offset."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pymongo import ASCENDING, DESCENDING

from registry.jsonapi.filtering import Filter
from registry.jsonapi.pagination import Window
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import BY_ID, Key, Order
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Coalescer
from registry.storage.reads.commands import Command, Commands, PointInTime
from registry.storage.reads.filter_queries import all_of, match
from registry.storage.reads.range_scans import RangeQuery, RangeScans
from registry.storage.records import ONE_BATCH, Stage
from registry.storage.visible_fields import fields_of, only

Conditions: TypeAlias = Sequence[Mapping[str, Any]]
"""MongoDB queries, all of which a record has to match."""

_RELATED = "_related"
"""The field of a record with the sort fields of related resources."""

_TARGET = "_target"
"""The field with the record of a related resource within the pipeline."""

_MAX_QUERIES = 50
"""Queries in flight: each may take up to the time limit, and must not use up all threads."""

_MAX_CALLERS = 256
"""Requests that share the result of one page."""


class ReadContext:
    """What all collection queries of one database share.

    seconds: the time limit of a query. range_scans, pages, slots: batching, coalescing and the
    bound on queries in flight.
    """

    def __init__(self, commands: Commands, graph: Graph, seconds: float) -> None:
        self.commands = commands
        self.graph = graph
        self.seconds = seconds
        self.range_scans = {
            resource.type: RangeScans(commands, resource.collection) for resource in graph.values()
        }
        self.pages = Coalescer[tuple[Window, PointInTime]](max_batch_size=_MAX_CALLERS)
        self.slots = asyncio.Semaphore(_MAX_QUERIES)


class CollectionQuery:
    """The records of a type that satisfy the filters, in the order of the request's query.

    point: the point in time that all its commands read at. The methods raise PyMongoError,
    ExecutionTimeout after the time limit.
    """

    def __init__(
        self,
        context: ReadContext,
        resource: Resource,
        filters: Sequence[Filter],
        query: Query,
        point: PointInTime,
    ) -> None:
        self.conditions: Conditions = [condition for condition in map(match, filters) if condition]
        self.order = query.order
        self.relationships = {key.relationship for key in query.order if key.relationship}
        self.point = point
        self._context = context
        self._resource = resource
        fields = self._fields = fields_of(resource, query.attributes(resource))
        # Cursors contain the values that the order compares.
        sort_fields = (sort_field(key).partition(".")[0] for key in query.order)
        self._projection = only([*fields, *sort_fields])
        self.key = resource.type, tuple(filters), query.order, fields

    async def find(
        self, conditions: Conditions, order: Order, size: int, offset: int = 0
    ) -> list[Record]:
        """Return at most `size` records that satisfy the conditions, which include the filters.

        The records may be shared with other requests: callers must not modify them.
        """
        if not offset and self._is_range_scan(conditions, order):
            direction = DESCENDING if order[0].descending else ASCENDING
            query = RangeQuery(conditions, direction, size, self._fields)
            scans = self._context.range_scans[self._resource.type]
            records, self.point.time = await scans.find(query, self.point.time)
            return records
        return await self._run(self._command(conditions, order, size, offset))

    async def count(self) -> int:
        """Return how many records satisfy the filters."""
        stages: list[Stage] = [{"$match": all_of(self.conditions)}, {"$count": "total"}]
        counted = await self._run(self._limited(self._aggregate(stages)))
        return counted[0]["total"] if counted else 0

    async def stream(self, batch_size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records that satisfy the filters, at most `batch_size` at a time."""
        time = self.point.time = self.point.time or await self._context.commands.now()
        command = self._command(self.conditions, self.order, batch_size=batch_size)
        cursor = (await self._context.commands.stream(command, time)).batch_size(batch_size)
        try:
            while True:
                async with self._context.slots:
                    records = await cursor.to_list(batch_size)
                if not records:
                    return
                yield records
        finally:
            await cursor.close()

    async def _run(self, command: Command) -> list[Record]:
        async with self._context.slots:
            found = await self._context.commands.run(command, self.point.time)
        self.point.time = found.time
        return found.records

    def _command(
        self,
        conditions: Conditions,
        order: Order,
        size: int = 0,
        offset: int = 0,
        batch_size: int = ONE_BATCH,
    ) -> Command:
        """Return a `find` command, or the slower `aggregate` if the order needs it.

        size: the maximum number of records, 0 for no limit.
        """
        sort = {sort_field(key): DESCENDING if key.descending else ASCENDING for key in order}
        if self.relationships:
            stages = self._stages(conditions, sort, size, offset)
            return self._limited(self._aggregate(stages, batch_size))
        command: Command = {
            "find": self._resource.collection,
            "filter": all_of(conditions),
            "projection": self._projection,
            "sort": sort,
            "skip": offset,
            "limit": size,
            "batchSize": batch_size,
            "allowDiskUse": True,
        }
        # A range scan takes time proportional to its result; a limit would truncate long streams.
        is_bounded = offset or not self._is_range_scan(conditions, order)
        return self._limited(command) if is_bounded else command

    def _aggregate(self, stages: list[Stage], batch_size: int = ONE_BATCH) -> Command:
        cursor = {"batchSize": batch_size}
        name = self._resource.collection
        return {"aggregate": name, "pipeline": stages, "cursor": cursor, "allowDiskUse": True}

    def _limited(self, command: Command) -> Command:
        return {**command, "maxTimeMS": round(self._context.seconds * 1_000)}

    def _is_range_scan(self, conditions: Conditions, order: Order) -> bool:
        """Whether the index of the ids alone serves the conditions and the order."""
        id_field = BY_ID[0].stored_name
        return (
            order[0].stored_name == id_field
            and not self.relationships
            and not self.conditions
            and all(condition.keys() == {id_field} for condition in conditions)
        )

    def _stages(
        self, conditions: Conditions, sort: dict[str, int], size: int, offset: int
    ) -> list[Stage]:
        own = len(self.conditions)  # the others are about fields of related resources too
        return [
            {"$match": all_of(conditions[:own])},
            *self._lookups(),
            {"$match": all_of(conditions[own:])},
            {"$sort": sort},
            *([{"$skip": offset}] if offset else []),
            *([{"$limit": size}] if size else []),
            {"$project": self._projection},
        ]

    def _lookups(self) -> Iterator[Stage]:
        """Yield the stages that add the sort fields of each related resource."""
        for relationship in self.relationships:
            fields = [key.stored_name for key in self.order if key.relationship == relationship]
            # With a pipeline of its own, a `$lookup` takes seven times as long.
            lookup = {
                "from": self._context.graph[relationship.target].collection,
                "localField": relationship.foreign_key,
                "foreignField": "_id",
                "as": _TARGET,
            }
            yield {"$lookup": lookup}
            values = {field: {"$first": f"${_TARGET}.{field}"} for field in fields}
            yield {"$set": {f"{_RELATED}.{relationship.name}": values, _TARGET: "$$REMOVE"}}


def sort_field(key: Key) -> str:
    """Return the path of the field that a key of an order compares."""
    prefix = f"{_RELATED}.{key.relationship.name}." if key.relationship else ""
    return prefix + key.stored_name
