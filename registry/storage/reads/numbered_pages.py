"""`page[number]` -> queries that skip as few records as possible."""

from dataclasses import replace
from typing import Any

from registry.jsonapi.pagination import NumberedPage, Window
from registry.model.record import Record
from registry.storage.reads.block_counts import Place
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.joined_reads import read
from registry.storage.reads.query_cost import MAX_OFFSET
from registry.storage.reads.totals import count

_MIN_INT64, _MAX_INT64 = -(2**63), 2**63 - 1


async def numbered_page(query: CollectionQuery, page: NumberedPage) -> Window:
    """Return a page, and the total if it is requested. Raises PyMongoError or BulkheadFull."""
    offset, total, place = (page.number - 1) * page.size, None, None
    if page.total or offset > MAX_OFFSET:
        if expected := query.expect(offset):
            window = await _page(query, page, expected.total, expected.place)
            if query.point.time == expected.time:
                return window
            query.point.time = None
        if located := await query.locate(offset):
            total, place = located.total, located.place
        elif page.total:
            total = await count(query)
    if total is not None:
        return await _page(query, page, total, place)
    following = await _read(query, page.size + 1, offset)
    return Window(following[: page.size], len(following) > page.size)


async def _page(
    query: CollectionQuery, page: NumberedPage, total: int, place: Place | None
) -> Window:
    """Return a page. place: of its first record in the order of the ids, if it is known."""
    offset = (page.number - 1) * page.size
    size, after = min(page.size, total - offset), max(0, total - offset - page.size)
    if size <= 0:
        records = []
    elif place and query.is_by_id:
        records = await _read_from(query, place, size)
    elif offset <= after:
        records = await _read(query, size, offset)
    else:
        records = await _read(query, size, after, backwards=True)
    return Window(records, after > 0, total=total if page.total else None)


async def _read(
    query: CollectionQuery, size: int, offset: int, *, backwards: bool = False
) -> list[Record]:
    """Return the records that follow the first ones, or precede the last ones if `backwards`."""
    order = query.order
    if backwards:
        order = tuple(replace(key, descending=not key.descending) for key in order)
    async with query.slot(is_heavy=not query.is_indexed or offset > MAX_OFFSET):
        records = await read(query, order, size, offset=offset)
    return records[::-1] if backwards else records


async def _read_from(query: CollectionQuery, place: Place, size: int) -> list[Record]:
    """Return the records from a place on, in the order of the ids."""
    conditions: list[dict[str, Any]] = []
    # There is nothing beyond the ends of the range of integers.
    if query.order[0].descending:
        skip = place.after
        if place.last < _MAX_INT64:
            conditions = [{"_id": {"$lt": place.last + 1}}]
    else:
        skip = place.before
        if place.first > _MIN_INT64:
            conditions = [{"_id": {"$gt": place.first - 1}}]
    async with query.slot(is_heavy=skip > MAX_OFFSET):
        return await query.find(conditions, query.order, size, skip)
