"""Conditions on related resources -> conditions on the ids that link to them."""

from collections.abc import Collection
from typing import Any

from bson.int64 import Int64

from registry.jsonapi.filtering import (
    AllOf,
    AnyOf,
    Condition,
    Filter,
    Not,
    Related,
    filtered_fields,
    related_filters,
)
from registry.jsonapi.sorting import BY_ID, Key
from registry.model.attributes import Operator
from registry.model.resource import Relationship
from registry.model.stored_fields import ID
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.filter_queries import match
from registry.storage.reads.query_cost import is_indexed
from registry.storage.records import ONE_BATCH, Stage, key_of


async def narrowed(query: CollectionQuery, limit: int) -> list[Filter]:
    """Return the filters of a query, with conditions on ids in place of those on related resources.

    A condition that more related records match than `limit` is kept. Raises PyMongoError, or
    ExecutionTimeout after the time limit.
    """
    return [await _narrowed(one, query, limit) for one in query.filters]


def is_narrowed_by_indexes(query: CollectionQuery) -> bool:
    """Whether the query has conditions on related resources, all of which an index serves."""
    related = [one for part in query.filters for one in related_filters(part)]
    return bool(related) and all(map(_is_indexed, related))


def _is_indexed(related: Related) -> bool:
    """Whether an index finds the related records that match, in whatever order."""
    names = {name for _, name in filtered_fields(related.part, related.target.type)}
    return is_indexed([related.part], (*map(Key, names - {ID}), *BY_ID))


async def _narrowed(part: Filter, query: CollectionQuery, limit: int) -> Filter:
    match part:
        case AllOf(parts):
            return AllOf(tuple([await _narrowed(one, query, limit) for one in parts]))
        case AnyOf(parts):
            return AnyOf(tuple([await _narrowed(one, query, limit) for one in parts]))
        case Not(negated):
            return Not(await _narrowed(negated, query, limit))
        case Related(relationship):
            ids = await _linked_ids(query, part, limit)
            if ids is not None:
                return Condition(linked_field(relationship), Operator.IN, tuple(sorted(ids)))
    return part


async def _linked_ids(query: CollectionQuery, related: Related, limit: int) -> set[int] | None:
    """Return the ids that link to matching records; None if more records match than `limit`."""
    field = _linking_field(related.relationship)
    (part,) = await query.searched(related.target, [related.part])
    ids = {"$push": f"${field}"}  # decoded as one document; `$addToSet` takes longer
    stages: list[Stage] = [
        {"$match": match(part) or {field: {"$ne": None}}},
        {"$limit": limit + 1},
        {"$group": {"_id": None, "ids": ids, "count": {"$sum": 1}}},
    ]
    name = related.target.collection
    found = await query.run({"aggregate": name, "pipeline": stages, "cursor": {}})
    if not found:
        return set()
    return _valid_ids(found[0]["ids"]) if found[0]["count"] <= limit else None


async def linked_ids(query: CollectionQuery, related: Related, ids: Collection[int]) -> set[int]:
    """Return those of the ids, of the field `linked_field`, that link to a matching record.

    Raises as `narrowed`.
    """
    if not ids:
        return set()
    field = _linking_field(related.relationship)
    # As a `$group` stage, which would leave out duplicates, it takes twice the CPU time.
    command = {
        "find": related.target.collection,
        "filter": {"$and": [{field: {"$in": list(ids)}}, match(related.part)]},
        "projection": {"_id": False, field: True},
        "batchSize": ONE_BATCH,
    }
    return _valid_ids([record.get(field) for record in await query.run(command)])


def linked_field(relationship: Relationship) -> str:
    """Return the stored field of a type that has the ids which link to related records."""
    return ID if relationship.to_many else relationship.foreign_key


def _linking_field(relationship: Relationship) -> str:
    """Return the stored field of the related records that has the same ids."""
    return relationship.foreign_key if relationship.to_many else ID


def _valid_ids(values: Collection[Any]) -> set[int]:
    """Return the values that are ids: external writers may have stored others."""
    if set(map(type, values)) <= _INTEGERS:
        return set(values)
    keys = (key_of({ID: value}, ID) for value in values)
    return {key for key in keys if key is not None}


_INTEGERS = {int, Int64}
