"""Snapshots: reads that all show the database at one point in time.

Lookups by id or foreign key are batched across requests. Without that, reading a resource takes
2.8 times the CPU time, a page with `include` 1.5 times.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from bson.timestamp import Timestamp

from registry.capacity import (
    LOOKUPS_OF_MANY,
    LOOKUPS_OF_ONE,
    PAST_BATCHES,
    UNBATCHED_LOOKUPS,
    Capacity,
)
from registry.jsonapi.filtering import Condition
from registry.jsonapi.query import Query
from registry.model.attributes import Operator
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource_type import Relationship, ResourceType
from registry.model.stored_fields import ID
from registry.offloading import in_chunks, offload
from registry.storage.backlog import Backlog
from registry.storage.bulkheads import Bulkheads
from registry.storage.errors import RecordNotFound, translated_errors
from registry.storage.mongo.batching import Batcher
from registry.storage.mongo.read_commands import (
    ReadCommands,
    ReadResult,
    SnapshotReader,
    aggregate_command,
    find_command,
)
from registry.storage.reads.collection_query import CollectionQuery, ResourceCollection
from registry.storage.reads.listings import Listing
from registry.storage.record_schema import require_valid
from registry.storage.records import (
    Stage,
    fields_of,
    id_condition,
    projection,
    visible_fields,
)

_Lookup: TypeAlias = tuple[Collection[int], tuple[str, ...]]
"""The ids to look up, and the stored fields to return."""

_MAX_SHARED_IDS = 1_000
"""A lookup of more ids than this is not batched, as it would delay smaller ones."""

_MAX_QUERY_IDS = 100_000
"""Ids in a query, which is limited to 16 MiB; an id takes up to 16 bytes."""


class Reads:
    """The reads of one database: its collections, and lookups that snapshots share."""

    def __init__(
        self,
        commands: ReadCommands,
        graph: Graph,
        capacity: Capacity,
        bulkheads: Bulkheads,
        backlog: Backlog,
    ) -> None:
        self.commands = commands
        self.graph = graph
        self.bulkheads = bulkheads
        self.unbatched = asyncio.Semaphore(UNBATCHED_LOOKUPS)
        self.collections = {
            name: ResourceCollection(resource, commands, graph, capacity, bulkheads, backlog)
            for name, resource in graph.items()
        }
        self.seconds = capacity.query_seconds
        self._past_batches = asyncio.Semaphore(PAST_BATCHES)
        self._batchers: dict[Hashable, Batcher[_Lookup, ReadResult]] = {}

    async def close(self) -> None:
        """Stop reading in the background, and end the sessions."""
        for collection in self.collections.values():
            await collection.id_index.close()
        await self.commands.close()

    def batcher(
        self, resource: ResourceType, field: str, is_single: bool, time: Timestamp | None
    ) -> Batcher[_Lookup, ReadResult]:
        """Return the batcher of lookups in a field at one point in time; None is the latest.

        is_single: whether the lookups have one key each.
        """
        key = resource, field, is_single, time
        batcher = self._batchers.get(key)
        if batcher is None:
            batcher = self._batchers[key] = Batcher(
                partial(self._read_batch, resource, field, time),
                name="lookups",
                limits=LOOKUPS_OF_ONE if is_single else LOOKUPS_OF_MANY,
                on_idle=partial(self._batchers.pop, key) if time else None,
                is_inline=True,
            )
        return batcher

    async def _read_batch(
        self, resource: ResourceType, field: str, time: Timestamp | None, lookups: Sequence[_Lookup]
    ) -> list[ReadResult]:
        keys, fields = lookups[0]
        if len(lookups) > 1:
            keys = set[int]().union(*[keys for keys, _ in lookups])
            fields = tuple(set[str]().union(*[fields for _, fields in lookups]))
        query = {field: id_condition(list(keys))}
        command = find_command(resource.collection, query, projection(fields))
        with translated_errors():
            if time:
                async with self._past_batches:
                    result = await self.commands.run(command, time)
            else:
                result = await self.commands.run(command)
        if len(lookups) == 1:
            return [result]
        records, time = result
        if field == ID:  # which is unique
            known = dict(zip(map(itemgetter(ID), records), records, strict=True))
            return [
                ReadResult(list(filter(None, map(known.get, keys))), time) for keys, _ in lookups
            ]
        by_key: dict[int, list[Record]] = defaultdict(list)
        async for chunk in in_chunks(records):
            for record in chunk:
                if not isinstance(key := record[field], int):  # only requests for it should fail
                    alone = [[lookup] for lookup in lookups]
                    each = [await self._read_batch(resource, field, time, one) for one in alone]
                    return [result for (result,) in each]
                by_key[key].append(record)
        return [
            ReadResult(
                list(chain.from_iterable(map(by_key.__getitem__, by_key.keys() & keys))), time
            )
            for keys, _ in lookups
        ]


class Snapshot:
    """The resources at one point in time, for one document.

    The time is that of the write to show, if there is one. Otherwise the first read determines it,
    and the snapshot has every write acknowledged before that read. The methods raise Unavailable,
    also when the snapshot is older than MongoDB keeps them (five minutes by default), or
    InvalidRecord for a record that is not valid among those that they would return. Records are
    shared with other requests: callers must not modify them, and they may have more fields.
    """

    __slots__ = ("_reader", "_reads")

    def __init__(self, reads: Reads, time: Timestamp | None = None) -> None:
        self._reads = reads
        self._reader = SnapshotReader(reads.commands, reads.seconds, time)

    async def get(self, resource: ResourceType, id_: int) -> Record:
        """Return the record with this id. Raises RecordNotFound or BulkheadFull."""
        async with self._reads.bulkheads.small_requests:
            batcher = self._reads.batcher(resource, ID, True, self._reader.time)
            records, self._reader.time = await batcher.load(((id_,), visible_fields(resource)))
        if not records:
            raise RecordNotFound.by_id(resource.type, id_)
        require_valid(resource, records, visible_fields(resource))
        return records[0]

    async def read_by_ids(
        self, resource: ResourceType, ids: Collection[int], attributes: frozenset[str]
    ) -> list[Record]:
        """Return the records with these ids, by ascending id. attributes: names of those to return.

        The ids of resources that do not exist are ignored.
        """
        return await self._look_up(resource, ID, ids, attributes)

    async def read_members(
        self,
        resource: ResourceType,
        relationship: Relationship,
        ids: Sequence[int],
        attributes: frozenset[str],
        limit: int | None = None,
    ) -> list[Record]:
        """Return the members of a to-many relationship of each resource, by ascending id.

        attributes: names of those to return. limit: return the first members of each resource.
        """
        target, foreign_key = self._reads.graph[relationship.target], relationship.foreign_key
        fields = fields_of(target, attributes)
        if limit is None:
            return await self._look_up(target, foreign_key, ids, attributes)
        lookup: Stage = {
            "from": target.collection,
            "localField": ID,
            "foreignField": foreign_key,
            "pipeline": [
                {"$sort": {ID: 1}},
                {"$limit": limit},
                {"$project": projection(fields)},
            ],
            "as": "members",
        }
        records: list[Record] = []
        with translated_errors():
            for batch in _split(ids):
                match: Stage = {"$match": {ID: {"$in": batch}}}
                stages = [match, {"$project": projection(())}, {"$lookup": lookup}]
                command = aggregate_command(resource.collection, stages)
                async with self._reads.unbatched:
                    owners, self._reader.time = await self._reads.commands.run(
                        command, self._reader.time
                    )
                for owner in owners:
                    records += owner["members"]
        return await _in_order(target, records, fields)

    def listing(
        self, resource: ResourceType, query: Query, within: Mapping[str, int] | None = None
    ) -> Listing:
        """Return the collection for a query. within: values of stored fields, by field."""
        common = (Condition(field, Operator.EQ, key) for field, key in (within or {}).items())
        collection = self._reads.collections[resource.type]
        filters = [*common, *query.filters]
        return Listing(CollectionQuery(collection, filters, query, self._reader))

    async def _look_up(
        self, resource: ResourceType, field: str, keys: Collection[int], attributes: frozenset[str]
    ) -> list[Record]:
        """Return the records in which a field has one of the keys, by ascending id."""
        if not keys:
            return []
        reads, fields, time = self._reads, fields_of(resource, attributes), self._reader.time
        if len(keys) <= _MAX_SHARED_IDS:
            batcher = reads.batcher(resource, field, len(keys) == 1, time)
            records, self._reader.time = await batcher.load((keys, fields))
        else:
            records, shown = [], projection(fields)
            async with reads.unbatched:
                with translated_errors():
                    for batch in _split(keys):
                        query = {field: {"$in": batch}}
                        command = find_command(resource.collection, query, shown)
                        some, self._reader.time = await reads.commands.run(
                            command, self._reader.time
                        )
                        records += some
        return await _in_order(resource, records, fields)


async def _in_order(
    resource: ResourceType, records: Sequence[Record], fields: tuple[str, ...]
) -> list[Record]:
    """Return the records by ascending id. Raises InvalidRecord if one is not valid."""
    async for some in in_chunks(records):
        require_valid(resource, some, fields)
    return await offload(partial(sorted, records, key=itemgetter(ID)), size=len(records))


def _split(ids: Collection[int]) -> list[list[int]]:
    """Return the ids in parts, each for one query."""
    all_ids = list(ids)
    return [
        all_ids[start : start + _MAX_QUERY_IDS] for start in range(0, len(all_ids), _MAX_QUERY_IDS)
    ]
