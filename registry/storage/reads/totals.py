"""How many records satisfy the filters of a query."""

from functools import partial

from bson.timestamp import Timestamp

from registry.jsonapi.filtering import related_filters
from registry.jsonapi.sorting import BY_ID
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.filter_queries import all_of
from registry.storage.reads.joined_reads import in_order
from registry.storage.reads.query_cost import MAX_OFFSET, is_counted_by_index
from registry.storage.reads.related_filters import with_ids
from registry.storage.records import Stage

_MAX_IDS = 500_000
"""Ids in the conditions of a count: each takes up to 18 bytes of a command of at most 16 MiB."""


async def count(query: CollectionQuery) -> int:
    """Return how many records satisfy the filters. Concurrent requests share one count.

    Raises as the methods of the query.
    """
    key = query.resource.type, tuple(query.filters), query.point.time
    total, query.point.time = await query.context.totals.load(key, partial(_count, query))
    return total


async def _count(query: CollectionQuery) -> tuple[int, Timestamp | None]:
    """Count few index keys as a small request, which most totals are; more as a heavy one."""
    if query.names_related:
        return await _count_related(query), query.point.time
    if is_counted_by_index(query.filters) and not query.lacks_indexes:
        limit: list[Stage] = [{"$limit": MAX_OFFSET + 1}]
        counted = await _count_matching(query, limit, is_heavy=False)
        if counted <= MAX_OFFSET:
            return counted, query.point.time
    return await _count_matching(query, [], is_heavy=True), query.point.time


async def _count_matching(query: CollectionQuery, limit: list[Stage], *, is_heavy: bool) -> int:
    async with query.slot(is_heavy=is_heavy):
        stages = [{"$match": all_of(query.conditions)}, *limit, {"$count": "total"}]
        name = query.resource.collection
        found = await query.run({"aggregate": name, "pipeline": stages, "cursor": {}})
    return found[0]["total"] if found else 0


async def _count_related(query: CollectionQuery) -> int:
    """Count records by the ids that link to related ones; one by one if these are too many."""
    related = sum(1 for part in query.filters for _ in related_filters(part))
    async with query.slot(is_heavy=True):
        by_ids = await with_ids(query, _MAX_IDS // related)
        if by_ids.names_related:
            return sum([len(records) async for records in in_order(query, BY_ID)])
    return await _count_matching(by_ids, [], is_heavy=True)
