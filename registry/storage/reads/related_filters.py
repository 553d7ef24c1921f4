"""Filters by attributes of related resources.

If few related records match, their ids become a condition. Otherwise records are read in any order,
and those are kept that are linked to a related record that matches (a semi-join).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import assert_never

from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    conjuncts,
    filtered_fields,
    names_related,
    related_filters,
)
from registry.jsonapi.sorting import BY_ID, Key
from registry.model.attributes import Operator
from registry.model.record import Record, hashable_id
from registry.model.resource_type import Relationship, ResourceType
from registry.model.stored_fields import ID
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.filter_queries import all_of, match
from registry.storage.reads.query_cost import is_indexed
from registry.storage.reads.sort_keys import Conditions
from registry.storage.records import ONE_BATCH, Stage, key_of

MAX_IDS = 10_000
"""Ids in the condition of a page, whose records MongoDB sorts in 25 ms."""


async def with_ids(query: CollectionQuery, limit: int) -> CollectionQuery:
    """Return the query with conditions on ids in place of those on related resources.

    A condition that more related records match than `limit` is kept. Raises PyMongoError, or
    ExecutionTimeout after the time limit.
    """
    return query.with_filters([await _with_ids(one, query, limit) for one in query.filters])


def are_counted_by_indexes(filters: Iterable[Filter]) -> bool:
    """Whether indexes find all related records that match the filters, in whatever order."""
    return all(_is_indexed(related) for part in filters for related in related_filters(part))


def _is_indexed(related: Related) -> bool:
    names = {name for _, name in filtered_fields(related.part, related.target.type)}
    return is_indexed([related.part], (*map(Key, names - {ID}), *BY_ID))


async def _with_ids(part: Filter, query: CollectionQuery, limit: int) -> Filter:
    match part:
        case AllOf(parts):
            return AllOf(tuple([await _with_ids(one, query, limit) for one in parts]))
        case AnyOf(parts):
            return AnyOf(tuple([await _with_ids(one, query, limit) for one in parts]))
        case Not(negated):
            return Not(await _with_ids(negated, query, limit))
        case Related(relationship, target):
            field = _linking_field(relationship)
            (own,) = await query.searched(target, [part.part])
            conditions = [match(own) or {field: {"$ne": None}}]
            ids = await linked_ids(query, target, conditions, field, limit)
            if ids is not None:
                return Condition(_linked_field(relationship), Operator.IN, tuple(sorted(ids)))
    return part


async def linked_ids(
    query: CollectionQuery, resource: ResourceType, conditions: Conditions, field: str, limit: int
) -> set[int] | None:
    """Return the ids in a field of the records of a type that satisfy conditions.

    None if more records than `limit` do, or, without conditions, if there are more ids. Raises
    PyMongoError, or ExecutionTimeout after the time limit.
    """
    bound: Stage = {"$limit": limit + 1}
    stages: list[Stage] = [{"$match": all_of(conditions)}, bound]
    if not conditions:  # the index of the field has each id in one place
        stages = [{"$sort": {field: 1}}, {"$group": {ID: f"${field}"}}, bound]
    name = field if conditions else ID
    # Decoded as one document; `$addToSet` takes longer.
    ids = {"$group": {ID: None, "ids": {"$push": f"${name}"}, "count": {"$sum": 1}}}
    command = {"aggregate": resource.collection, "pipeline": [*stages, ids], "cursor": {}}
    found = await query.run(command)
    if not found:
        return set()
    return _valid_ids(found[0]["ids"]) if found[0]["count"] <= limit else None


class SemiJoin:
    """Keeps the records of a query that satisfy its conditions on related resources.

    base: the query without these conditions.
    """

    def __init__(self, query: CollectionQuery) -> None:
        parts = list(conjuncts(query.filters))
        self.filters = [part for part in parts if names_related(part)]
        self.base = query.with_filters([part for part in parts if not names_related(part)])
        self._query = query

    async def matching(self, records: Sequence[Record]) -> list[Record]:
        """Return those of some records of the base query. Raises PyMongoError."""
        return list(await self._matching(AllOf(tuple(self.filters)), records))

    async def _matching(self, part: Filter, records: Sequence[Record]) -> Sequence[Record]:
        match part:
            case AllOf(parts):
                for one in parts:
                    records = await self._matching(one, records)
                return records
            case AnyOf(parts):
                either = [one for part in parts for one in await self._matching(part, records)]
                return _among(either, records)
            case Not(negated):
                excluded = set(map(id, await self._matching(negated, records)))
                return [record for record in records if id(record) not in excluded]
            case Related(relationship, target, part):
                field, linking = _linked_field(relationship), _linking_field(relationship)
                keys = [key_of(record, field) for record in records]
                linked = _valid_ids(await self._values(target, linking, set(keys) - {None}, part))
                return [one for one, key in zip(records, keys, strict=True) if key in linked]
            case Condition():
                ids = [record[ID] for record in records]
                found = await self._values(self._query.resource, ID, ids, part)
                known = set(map(hashable_id, found))
                return [record for record in records if hashable_id(record[ID]) in known]
        assert_never(part)

    async def _values(
        self, resource: ResourceType, field: str, values: Collection[object], part: Filter
    ) -> list[object]:
        """Return the values of a field, among some values, in the records that satisfy a filter."""
        if not values:
            return []
        # As a `$group` stage, which would leave out duplicates, it takes twice the CPU time.
        command = {
            "find": resource.collection,
            "filter": {"$and": [{field: {"$in": list(values)}}, match(part)]},
            "projection": {ID: field == ID, field: True},
            "batchSize": ONE_BATCH,
        }
        return [record.get(field) for record in await self._query.run(command)]


def _among(found: Iterable[Record], records: Iterable[Record]) -> list[Record]:
    """Return the records that were found, in their order."""
    identities = set(map(id, found))
    return [record for record in records if id(record) in identities]


def _linked_field(relationship: Relationship) -> str:
    """Return the stored field of a type that has the ids which link to related records."""
    return ID if relationship.to_many else relationship.foreign_key


def _linking_field(relationship: Relationship) -> str:
    """Return the stored field of the related records that has the same ids."""
    return relationship.foreign_key if relationship.to_many else ID


def _valid_ids(values: Collection[object]) -> set[int]:
    """Return the values that are ids: external writers may have stored others."""
    keys = (key_of({ID: value}, ID) for value in values)
    return {key for key in keys if key is not None}
