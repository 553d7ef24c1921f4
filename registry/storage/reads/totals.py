"""How many records satisfy the filters of a query."""

from functools import partial

from bson.timestamp import Timestamp

from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.filter_queries import all_of
from registry.storage.reads.query_cost import MAX_OFFSET, is_counted_by_index
from registry.storage.records import Stage


async def count(query: CollectionQuery) -> int:
    """Return how many records satisfy the filters. Concurrent requests share one count.

    Raises as the methods of the query.
    """
    key = query.resource.type, tuple(query.filters), query.point.time
    total, query.point.time = await query.context.totals.load(key, partial(_count, query))
    return total


async def _count(query: CollectionQuery) -> tuple[int, Timestamp | None]:
    """Count few index keys as a small request, which most totals are; more as a heavy one."""
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
