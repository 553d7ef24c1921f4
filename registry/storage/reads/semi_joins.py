"""Semi-joins: which records are linked to related records that match a filter."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    conjuncts,
    names_related,
)
from registry.model.record import Record, hashable_id
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.filter_queries import match
from registry.storage.reads.related_filters import linked_field, linked_ids
from registry.storage.records import ONE_BATCH, key_of


class SemiJoin:
    """Keeps the records of a query that are linked to related records that match.

    base: the query without its conditions on related resources.
    """

    def __init__(self, query: CollectionQuery) -> None:
        parts = list(conjuncts(query.filters))
        self._condition = AllOf(tuple(part for part in parts if names_related(part)))
        self._query = query
        self.base = query.with_filters([part for part in parts if not names_related(part)])

    async def matching(self, records: Sequence[Record]) -> Sequence[Record]:
        """Return the records of the base query that satisfy the conditions. Raises PyMongoError."""
        return await self._matching(self._condition, records)

    async def _matching(self, part: Filter, records: Sequence[Record]) -> Sequence[Record]:
        match part:
            case AllOf(parts):
                for one in parts:
                    records = await self._matching(one, records)
                return records
            case AnyOf(parts):
                found = [record for one in parts for record in await self._matching(one, records)]
                return _those_in(found, records)
            case Not(negated):
                excluded = set(map(id, await self._matching(negated, records)))
                return [record for record in records if id(record) not in excluded]
            case Related():
                return await self._linked(part, records)
            case Condition():
                return await self._satisfying(part, records)
        assert_never(part)

    async def _linked(self, related: Related, records: Sequence[Record]) -> list[Record]:
        field = linked_field(related.relationship)
        keys = [key_of(record, field) for record in records]
        linked = await linked_ids(self._query, related, {key for key in keys if key is not None})
        return [record for record, key in zip(records, keys, strict=True) if key in linked]

    async def _satisfying(
        self, condition: Condition, records: Sequence[Record]
    ) -> Sequence[Record]:
        if not records:
            return records
        within = {"_id": {"$in": [record["_id"] for record in records]}}
        command = {
            "find": self._query.resource.collection,
            "filter": {"$and": [within, match(condition)]},
            "projection": {"_id": True},
            "batchSize": ONE_BATCH,
        }
        ids = {hashable_id(record["_id"]) for record in await self._query.run(command)}
        return [record for record in records if hashable_id(record["_id"]) in ids]


def _those_in(found: Iterable[Record], records: Iterable[Record]) -> list[Record]:
    """Return the records that were found, in their order."""
    identities = set(map(id, found))
    return [record for record in records if id(record) in identities]
