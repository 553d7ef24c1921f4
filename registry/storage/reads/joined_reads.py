"""Collections in order: by own fields, or joined with related resources.

Few records are joined and sorted as a whole. Of many, batches are read in the order of an index,
each with the records on the other side of the relationship, until the page is full. An order that
no index serves, such as `owner.last_name,serial`, is that of the database: `$lookup` and `$sort`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from registry.jsonapi.cursors import END, Position
from registry.jsonapi.filtering import Filter
from registry.jsonapi.sorting import Order
from registry.model.record import Record
from registry.storage.reads.bounded_sorts import find_after
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.related_filters import (
    MAX_IDS,
    SemiJoin,
    with_ids,
)
from registry.storage.reads.related_order import (
    MAX_BATCH,
    PER_RESULT,
    InvalidKey,
    RelatedOrder,
    sorted_relationship,
)
from registry.storage.reads.sort_keys import position_of

_MAX_SORTED = 200
"""Records that are joined and sorted as a whole, which takes 5 ms."""


async def read(
    query: CollectionQuery, order: Order, size: int, position: Position = END, offset: int = 0
) -> list[Record]:
    """Return at most `size` records in an order, after a position and an offset.

    query: has a slot. position: END for the start. Raises PyMongoError.
    """
    if not query.names_related and sorted_relationship(order) is None:
        if offset:
            return await query.find(query.conditions, order, size, offset)
        return await find_after(query.find, query.conditions, order, position, size)
    records: list[Record] = []
    needed = min(offset + size, MAX_BATCH)
    async with aclosing(in_order(query, order, position, needed)) as batches:
        async for batch in batches:
            records += batch[offset:]
            offset = max(0, offset - len(batch))
            if len(records) >= size:
                break
    return records[:size]


async def in_order(
    query: CollectionQuery,
    order: Order,
    position: Position = END,
    size: int = MAX_BATCH,
    *,
    is_counted: bool = False,
) -> AsyncGenerator[list[Record]]:
    """Yield all records after a position in batches, which may be empty.

    query: has a slot. size: records that are needed. is_counted: whether more than MAX_IDS related
    records are known to match the filters; otherwise they are counted if the first batch does not
    suffice. Raises PyMongoError.
    """
    if not query.names_related:
        async for records in _sorted(query, order, position, size, ()):
            yield records
        return
    join = SemiJoin(query)
    last = END
    async for records in _sorted(join.base, order, position, size, join.filters):
        if last and not is_counted:
            is_counted, by_ids = True, await with_ids(query, MAX_IDS)
            if by_ids.filters != query.filters:
                async for batch in in_order(by_ids, order, last, size, is_counted=True):
                    yield batch
                return
        yield await join.matching(records)
        if records:
            last = position_of(records[-1], order)


async def _sorted(
    query: CollectionQuery, order: Order, position: Position, size: int, filters: Sequence[Filter]
) -> AsyncGenerator[list[Record]]:
    """Yield all records after a position, except that filters on related resources may apply."""
    relationship = sorted_relationship(order)
    if relationship and await query.has_more_than(_MAX_SORTED):
        related_order = RelatedOrder(query, order, relationship, filters)
        try:
            async for records in related_order.batches(position, size):
                yield records
                position = position_of(records[-1], order) if records else position
        except InvalidKey:
            pass  # MongoDB joins the others
        else:
            return
    size = min(PER_RESULT * size, MAX_BATCH) if filters else size
    while records := await find_after(query.find, query.conditions, order, position, size):
        yield records
        if len(records) < size:
            return
        position = position_of(records[-1], order)
        size = min(2 * size, MAX_BATCH)


async def in_chunks(query: CollectionQuery, size: int) -> AsyncGenerator[list[Record]]:
    """Yield all records of a query in batches of this size, the last of which may be shorter."""
    if not query.names_related and sorted_relationship(query.order) is None:
        batches = query.sorted_batches(size)
    else:
        batches = in_order(query, query.order, size=size)
    records: list[Record] = []
    async with aclosing(batches):
        async for batch in batches:
            records += batch
            while len(records) >= size:
                yield records[:size]
                del records[:size]
    if records:
        yield records
