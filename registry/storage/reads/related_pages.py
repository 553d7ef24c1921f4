"""Collections filtered by attributes of related resources, where many related records match.

There are two ways: look up the related records that match, whose ids are conditions for the page;
or read records in the order of the page, and look up which of them are linked to such a record (a
semi-join). The first is fast if few related records match, the second if many do. As neither is
known, they are tried in turn, with limits that rise, which takes a small multiple of the time of
the faster one.
"""

import math
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from registry.jsonapi.cursors import Cursors
from registry.jsonapi.filtering import Filter, names_related, related_filters
from registry.jsonapi.pagination import CursorPage, NumberedPage, Page, Window
from registry.model.record import Record
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.keyset_pages import keyset_page
from registry.storage.reads.related_filters import narrowed
from registry.storage.reads.semi_joins import SemiJoin
from registry.storage.reads.sort_keys import position_of
from registry.storage.reads.totals import count

_Read: TypeAlias = Callable[[CollectionQuery, Page], Awaitable[Window]]

FEW = 1_000
"""Related records to look up for a query that may turn out to be small; it takes about 1 ms."""

_MANY = 100_000
"""Related records to look up before the records of the type are read instead."""

_TURNS = (1_000, 10_000), (10_000, _MANY)
"""Records of the type to read in each turn, and then related ones."""

_MAX_IDS = 500_000
"""Ids in the conditions of a count: each takes up to 18 bytes of a command of at most 16 MiB."""

_MAX_BATCH = 10_000
"""Records whose related ones are looked up at a time."""

_BATCH_PER_MATCH = 10
"""Records in the first batch for each on the page: enough if more than a tenth matches."""


async def related_page(query: CollectionQuery, page: Page, read: _Read) -> Window:
    """Return a page of a query with conditions on related resources.

    read: waits for a slot, and reads a page of a query without such conditions. Waits for slots.
    Raises PyMongoError, ExecutionTimeout after the time limit of a command, or BulkheadFull.
    """
    async with query.slot(is_heavy=True):
        outcome = await _by_turns(query, page)
    if not isinstance(outcome, Window):
        return await read(query.with_filters(outcome), page)
    if isinstance(page, NumberedPage) and page.total:
        return replace(outcome, total=await _total(query))
    return outcome


async def related_batches(
    query: CollectionQuery, size: int, client: str | None
) -> AsyncGenerator[list[Record]]:
    """Yield all records of such a query, in batches of this size.

    Waits for slots, and counts as a stream of the client as the query does. Raises as
    `related_page`.
    """
    async with query.slot(is_heavy=True):
        filters = await narrowed(query, _MANY)
    join = SemiJoin(query.with_filters(filters))
    matching: list[Record] = []
    async with join.base.stream(size, client) as batches:
        async for records in batches:
            matching += await join.matching(records)
            if len(matching) > size:
                yield matching[:size]
                del matching[:size]
    if matching:
        yield matching


async def _by_turns(query: CollectionQuery, page: Page) -> Window | list[Filter]:
    """Return the page, or the filters to read it by if few related records match."""
    matching = _MatchingRecords(query, page)
    for own, related in _TURNS:
        if await matching.extend(own):
            break
        filters = await narrowed(query, related)
        query = query.with_filters(filters)
        if not query.names_related:
            return filters
    else:
        await matching.extend(math.inf)
    return matching.window()


async def _total(query: CollectionQuery) -> int:
    """Return how many records satisfy the filters."""
    related = sum(1 for part in query.filters for _ in related_filters(part))
    async with query.slot(is_heavy=True):
        filters = await narrowed(query, _MAX_IDS // related)
        if any(map(names_related, filters)):
            # No page has this number, so all records that match come before it.
            matching = _MatchingRecords(query, NumberedPage(sys.maxsize, _MAX_BATCH))
            await matching.extend(math.inf)
            return matching.skipped
    return await count(query.with_filters(filters))


class _MatchingRecords:
    """Reads records in the order of a query until those that satisfy it fill a page.

    skipped: how many of the pages before a numbered one have been found.
    """

    def __init__(self, query: CollectionQuery, page: Page) -> None:
        self._join = SemiJoin(query)
        self._order = query.order
        self._size = page.size
        self._skip = 0
        if isinstance(page, NumberedPage):
            self._skip = (page.number - 1) * page.size
            page = CursorPage(page.size, Cursors(query.resource.type, query.order))
        self._backwards = page.backwards
        size = min(_BATCH_PER_MATCH * (page.size + 1), _MAX_BATCH)
        self._next: CursorPage | None = replace(page, size=size)
        self._found: list[Record] = []
        self._read = 0
        self.skipped = 0

    async def extend(self, limit: float) -> bool:
        """Read on, up to about this number of records. Return whether the page is complete."""
        while self._next and not self._is_full and limit > 0:
            read = await keyset_page(self._join.base, self._next)
            self._add(await self._join.matching(read.records))
            self._read += len(read.records)
            self._next = self._following(self._next, read)
            limit -= len(read.records)
        return not self._next or self._is_full

    @property
    def _is_full(self) -> bool:
        """Whether the page is complete, with one more record that shows that others follow."""
        return len(self._found) > self._size

    def _following(self, page: CursorPage, read: Window) -> CursorPage | None:
        """Return the next batch after one that was read; None if no others follow.

        It probably completes the page: it has half as many more records as that takes at the rate
        so far, up to twice as many as the last one.
        """
        if not read.more:
            return None
        missing = self._skip + self._size + 1 - self.skipped - len(self._found)
        matched = self.skipped + len(self._found)
        needed = 3 * missing * self._read // (2 * max(1, matched))
        size = min(max(needed, self._size), 2 * page.size, _MAX_BATCH)
        position = read.first if page.backwards else read.last
        return replace(page, size=size, position=position)

    def window(self) -> Window:
        """Return the page, as far as it has been read."""
        more = len(self._found) > self._size
        records = self._found[-self._size :] if self._backwards else self._found[: self._size]
        if not records:
            return Window((), more=False)
        first, last = (position_of(record, self._order) for record in (records[0], records[-1]))
        return Window(records, more, first, last)

    def _add(self, records: Sequence[Record]) -> None:
        if self._backwards:
            self._found[:0] = records
            return
        left_out = min(self._skip - self.skipped, len(records))
        self.skipped += left_out
        self._found += records[left_out:]
