"""Look-ups of records by id or foreign key, batched across requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorDatabase

from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Batcher
from registry.storage.errors import translated_errors
from registry.storage.projections import only
from registry.storage.reads.commands import aggregate_all, find_all
from registry.storage.records import Stage, by_id, key_of

_Ids: TypeAlias = "Collection[int]"
_Fields: TypeAlias = "tuple[str, ...]"
_Lookup: TypeAlias = "tuple[_Ids, _Fields]"
_Batchers: TypeAlias = "dict[tuple[Resource, str], Batcher[_Lookup, list[Record]]]"

_SINGLE_ID_LIMITS = 256, 2
"""Batch size and batches in flight, for look-ups of one id: while the service renders the records
of one batch, the database reads those of the other."""

_MANY_IDS_LIMITS = 12, 3
"""The same for look-ups of several ids; results of larger batches exceed processor caches."""

_MAX_SHARED_IDS = 1_000
"""A look-up of more ids than this is not batched, as it would delay smaller ones."""

_MAX_QUERY_IDS = 100_000
"""A query document is limited to 16 MiB, and an id takes up to 16 bytes."""


@dataclass(frozen=True, slots=True)
class Members:
    """The first members, by id, of a to-many relationship.

    resource: their type. foreign_key: their field with the id of the owner. limit: per owner.
    fields: the stored fields to return.
    """

    resource: Resource
    foreign_key: str
    limit: int
    fields: _Fields

    def lookup(self) -> Stage:
        """Return the `$lookup` that adds them to each owner."""
        first: list[Stage] = [{"$sort": {"_id": 1}}, {"$limit": self.limit}]
        return {
            "from": self.resource.collection,
            "localField": "_id",
            "foreignField": self.foreign_key,
            "pipeline": [*first, {"$project": only(self.fields)}],
            "as": "members",
        }


class Lookups:
    """The look-ups in one database. The methods raise Unavailable."""

    def __init__(self, database: AsyncIOMotorDatabase[dict[str, Any]]) -> None:
        self._database = database
        self._single_id: _Batchers = {}
        self._many_ids: _Batchers = {}

    async def find(
        self, resource: Resource, field: str, ids: _Ids, fields: _Fields
    ) -> list[Record]:
        """Return the records in which the field has one of the ids, by ascending `_id`.

        fields: the stored fields to return, among them `field` unless it is `_id`. The records are
        shared with other requests: callers must not modify them, and they may have more fields.
        """
        if len(ids) == 1:
            batchers, (size, in_flight) = self._single_id, _SINGLE_ID_LIMITS
        elif len(ids) <= _MAX_SHARED_IDS:
            batchers, (size, in_flight) = self._many_ids, _MANY_IDS_LIMITS
        else:
            return by_id(await self._query(resource, field, ids, fields))
        batcher = batchers.get((resource, field))
        if batcher is None:
            batch_fn = partial(self._find_batch, resource, field)
            batcher = batchers[resource, field] = Batcher(
                batch_fn, max_batch_size=size, max_in_flight=in_flight
            )
        return await batcher.load((ids, fields))

    async def find_first(self, resource: Resource, ids: _Ids, members: Members) -> list[Record]:
        """Return the first members of each resource of this type, by ascending `_id`."""
        records: list[Record] = []
        with translated_errors():
            for some_ids in _split(ids):
                stages: list[Stage] = [
                    {"$match": {"_id": {"$in": some_ids}}},
                    {"$project": {"_id": True}},
                    {"$lookup": members.lookup()},
                ]
                for owner in await aggregate_all(self._database[resource.collection], stages):
                    records += owner["members"]
        return by_id(records)

    async def _find_batch(
        self, resource: Resource, field: str, lookups: Sequence[_Lookup]
    ) -> list[list[Record]]:
        all_ids = set[int]().union(*(ids for ids, _ in lookups))
        all_fields = set[str]().union(*(fields for _, fields in lookups))
        records = await self._query(resource, field, all_ids, all_fields)
        if field == "_id":  # which is unique
            known = dict(zip(map(itemgetter("_id"), records), records, strict=True))
            return [list(filter(None, map(known.get, sorted(ids)))) for ids, _ in lookups]
        by_key: dict[int, list[Record]] = defaultdict(list)
        for record in records:
            if (key := key_of(record, field)) is not None:
                by_key[key].append(record)
        return [
            by_id(chain.from_iterable(by_key[id_] for id_ in ids if id_ in by_key))
            for ids, _ in lookups
        ]

    async def _query(
        self, resource: Resource, field: str, ids: _Ids, fields: Collection[str]
    ) -> list[Record]:
        collection, projection, records = self._database[resource.collection], only(fields), []
        with translated_errors():
            for some_ids in _split(ids):
                # MongoDB plans a query for one id faster than one for a list of one.
                query = {field: {"$in": some_ids} if len(some_ids) > 1 else some_ids[0]}
                records += await find_all(collection, query, projection)
        return records


def _split(ids: _Ids) -> Iterator[list[int]]:
    all_ids = list(ids)
    for start in range(0, len(all_ids), _MAX_QUERY_IDS):
        yield all_ids[start : start + _MAX_QUERY_IDS]
