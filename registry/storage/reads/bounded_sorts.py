"""Sorting by several keys within the range of an index: the first records, or after a position."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from registry.jsonapi.cursors import Position
from registry.jsonapi.sorting import Order
from registry.model.record import MAX_ID, Record
from registry.storage.reads.sort_keys import (
    Conditions,
    beyond,
    equal,
    is_same_type,
    up_to,
    up_to_type,
    value_of,
)

Find: TypeAlias = Callable[[Conditions, Order, int, int], Awaitable[list[Record]]]
"""Returns the records that satisfy conditions, in an order: at most `size` after an offset."""


def is_index_order(order: Order) -> bool:
    """Whether an index covers all keys: each has one field and the id, in the same direction."""
    return len(order) <= 2 and len({key.descending for key in order}) == 1


async def find_first(
    find: Find, conditions: Conditions, order: Order, size: int, offset: int = 0
) -> list[Record]:
    """Return the first records of an order, after an offset. Raises what `find` raises.

    If an index covers only the first key, find the first key of the last record, then sort only up
    to it. To sort all takes 2.4 times the CPU time of mongod.
    """
    skipped = min(offset + size - 1, MAX_ID)
    if not is_index_order(order) and (last := await find(conditions, order[:1], 1, skipped)):
        bounds = up_to(order[0], value_of(last[0], order[0]))
        records = await find([*conditions, *bounds], order, size, offset)
        if len(records) == size:
            return records  # fewer if some were deleted in the meantime: others follow
    return await find(conditions, order, size, offset)


async def find_after(
    find: Find, conditions: Conditions, order: Order, position: Position, size: int
) -> list[Record]:
    """Return the first records after a position. Raises what `find` raises.

    They either share its first value and follow in the other keys, or have a greater first value.
    Each of the two is a range of an index; for one `$or`, far from the start, MongoDB takes 4 times
    the CPU time, the service 1.8 times.
    """
    if not position:
        return await find(conditions, order, size, 0)
    (key, *rest), (value, *values) = order, position
    records: list[Record] = []
    if rest:
        tied = [*conditions, equal(key, value)]
        records = await find_after(find, tied, tuple(rest), tuple(values), size)
    following = beyond(key, value)
    if len(records) < size and following:
        # A record that was just written may be in both results: so read `size` here too.
        more = await find([*conditions, *following], order, size, 0)
        if more and key.descending and not is_same_type(value_of(more[0], key), value):
            # Of an external writer: it may precede the position, and pages would repeat.
            more = await find([*conditions, *following, up_to_type(key, value)], order, size, 0)
        if not records:
            return more
        known = {record["_id"] for record in records}
        records += [record for record in more if record["_id"] not in known]
    return records[:size]
