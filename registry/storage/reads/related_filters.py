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
    names_related,
)
from registry.model.attributes import Operator
from registry.model.record import Record
from registry.model.resource_type import Relationship, ResourceType
from registry.model.stored_fields import ID
from registry.storage.mongo.read_commands import SnapshotReader, aggregate_command, find_command
from registry.storage.reads.collection_query import CollectionQuery
from registry.storage.reads.filters import to_query
from registry.storage.records import Conditions, Stage, conjunction

MAX_IDS = 10_000
"""Ids in the condition of a page, whose records MongoDB sorts in 25 ms."""


async def with_linked_ids(query: CollectionQuery, limit: int) -> CollectionQuery:
    """Return the query with conditions on ids in place of those on related resources.

    A condition that more related records match than `limit` is kept. Raises PyMongoError, or
    ExecutionTimeout after the time limit.
    """
    return query.with_filters([await _with_linked_ids(one, query, limit) for one in query.filters])


async def _with_linked_ids(part: Filter, query: CollectionQuery, limit: int) -> Filter:
    match part:
        case AllOf(parts):
            return AllOf(tuple([await _with_linked_ids(one, query, limit) for one in parts]))
        case AnyOf(parts):
            return AnyOf(tuple([await _with_linked_ids(one, query, limit) for one in parts]))
        case Not(negated):
            return Not(await _with_linked_ids(negated, query, limit))
        case Related(relationship, target):
            field = _target_link_field(relationship)
            (own,) = await query.with_candidates(target, [part.part])
            conditions = [to_query(own) or {field: {"$ne": None}}]
            ids = await read_linked_ids(query.reader, target, conditions, field, limit)
            if ids is not None:
                return Condition(_own_link_field(relationship), Operator.IN, tuple(sorted(ids)))
    return part


async def read_linked_ids(
    reader: SnapshotReader, resource: ResourceType, conditions: Conditions, field: str, limit: int
) -> set[int] | None:
    """Return the ids in a field of the records of a type that satisfy conditions.

    None if more records than `limit` do, or, without conditions, if there are more ids. Raises
    PyMongoError, or ExecutionTimeout after the time limit.
    """
    bound: Stage = {"$limit": limit + 1}
    stages: list[Stage] = [{"$match": conjunction(conditions)}, bound]
    if not conditions:  # the index of the field has each id in one place
        stages = [{"$sort": {field: 1}}, {"$group": {ID: f"${field}"}}, bound]
    name = field if conditions else ID
    # Decoded as one document; `$addToSet` takes longer.
    ids = {"$group": {ID: None, "ids": {"$push": f"${name}"}, "count": {"$sum": 1}}}
    found = await reader.read(aggregate_command(resource.collection, [*stages, ids]))
    if not found:
        return set()
    if found[0]["count"] > limit:
        return None
    return _ids_among(found[0]["ids"])


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
        """Return those of some records of the base query. Raises PyMongoError or InvalidRecord."""
        self._query.require_valid(records)
        return list(await self._matching(AllOf(tuple(self.filters)), records))

    async def _matching(self, part: Filter, records: Sequence[Record]) -> Sequence[Record]:
        match part:
            case AllOf(parts):
                for one in parts:
                    records = await self._matching(one, records)
                return records
            case AnyOf(parts):
                either = [one for part in parts for one in await self._matching(part, records)]
                return _in_order_of(either, records)
            case Not(negated):
                excluded = set(map(id, await self._matching(negated, records)))
                return [record for record in records if id(record) not in excluded]
            case Related(relationship, target, part):
                field = _own_link_field(relationship)
                keys = {record.get(field) for record in records} - {None}
                linking = _target_link_field(relationship)
                linked = await self._matching_values(target, linking, keys, part)
                return [record for record in records if record.get(field) in linked]
            case Condition():
                ids = [record[ID] for record in records]
                known = await self._matching_values(self._query.resource, ID, ids, part)
                return [record for record in records if record[ID] in known]
        assert_never(part)

    async def _matching_values(
        self, resource: ResourceType, field: str, values: Collection[int | None], part: Filter
    ) -> set[int]:
        """Return the values of a field, among some values, in the records that satisfy a filter."""
        if not values:
            return set()
        # As a `$group` stage, which would leave out duplicates, it takes twice the CPU time.
        query = {"$and": [{field: {"$in": list(values)}}, to_query(part)]}
        shown = {ID: field == ID, field: True}
        found = await self._query.reader.read(find_command(resource.collection, query, shown))
        return _ids_among(record[field] for record in found)


def _ids_among(values: Iterable[object]) -> set[int]:
    """Return the values that are ids: null and those of invalid records link to no resource."""
    return {value for value in values if isinstance(value, int)}


def _in_order_of(found: Iterable[Record], records: Iterable[Record]) -> list[Record]:
    """Return those of `records` that were found, in the order of `records`."""
    identities = set(map(id, found))
    return [record for record in records if id(record) in identities]


def _own_link_field(relationship: Relationship) -> str:
    """Return the stored field by which records link to related ones: the id or a foreign key."""
    return ID if relationship.to_many else relationship.foreign_key


def _target_link_field(relationship: Relationship) -> str:
    """Return the stored field of the related records with the values of `_own_link_field`."""
    return relationship.foreign_key if relationship.to_many else ID
