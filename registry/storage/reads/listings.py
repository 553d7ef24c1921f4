"""Collections as a client lists them: streamed as a whole, or page by page."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from bson.timestamp import Timestamp

from registry.jsonapi.cursors import END
from registry.jsonapi.filtering import related_filters
from registry.jsonapi.pagination import CursorPage, NumberedPage, Page, Window
from registry.jsonapi.sorting import BY_ID, Order
from registry.model.record import ID, Record
from registry.storage.errors import QueryTimeout, translated_errors
from registry.storage.reads.collection_query import CollectionQuery, position_of
from registry.storage.reads.id_index import Place
from registry.storage.reads.query_plans import MAX_OFFSET
from registry.storage.reads.related_reads import (
    MAX_BATCH,
    read_batches,
    read_chunks,
    read_page,
    with_linked_ids,
)

_AddCopies: TypeAlias = Callable[[list[Record]], Awaitable[list[Record]]]

CHUNK = 1_000
"""Records of a streamed collection in memory at a time."""

_MAX_TOTAL_IDS = 500_000
"""Ids in the conditions of a total: each takes up to 18 bytes of a command of at most 16 MiB."""


class Listing:
    """The resources of a type that satisfy the filters, in the order of the query.

    add_copies: adds what records copy from others. The methods raise Unavailable, QueryTimeout,
    BulkheadFull, or InvalidRecord.
    """

    def __init__(self, query: CollectionQuery, add_copies: _AddCopies) -> None:
        self._query = query
        self._add_copies = add_copies

    @asynccontextmanager
    async def chunks(self, client: str | None = None) -> AsyncIterator[AsyncIterator[list[Record]]]:
        """Yield an iterator over all records, CHUNK at a time.

        The response counts as a stream until the context ends; if few records can satisfy the
        filters, only if they are more than one chunk. client: the one that reads the response, as
        Bulkhead counts it.
        """
        with translated_errors(self._query.reads.seconds):
            query = await self._query_by_ids()
        async with AsyncExitStack() as slots:
            if not query.plan.has_few_values:
                await slots.enter_async_context(self._query.reads.bulkheads.streams.slot(client))
            async with (
                aclosing(read_chunks(query, CHUNK)) as read,
                aclosing(self._admitted(query, read, slots, client)) as chunks,
            ):
                yield chunks

    async def window(self, page: Page) -> Window:
        """Return a page. Concurrent requests for the same page share its queries and records.

        So callers must not modify the records.
        """
        query = self._query
        key, seconds = (*query.key, page, query.reader.time), query.reads.total_seconds
        try:
            async with asyncio.timeout(seconds) as limit:  # also of the wait for an equal page
                load = partial(self._window, page)
                window, query.reader.time = await query.reads.pages.load(key, load)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise QueryTimeout(seconds) from error
        return window

    async def _query_by_ids(self) -> CollectionQuery:
        """Return the query by ids instead of related resources, if indexes find few of these."""
        query = self._query
        if query.names_related and query.plan.finds_related:
            async with query.reads.bulkheads.small_requests:
                query = await with_linked_ids(query, MAX_BATCH)
        return query

    async def _admitted(
        self,
        query: CollectionQuery,
        chunks: AsyncGenerator[list[Record]],
        slots: AsyncExitStack,
        client: str | None,
    ) -> AsyncGenerator[list[Record]]:
        """Yield the chunks, each of which is read in a slot if the query is heavy."""
        bulkheads, is_heavy = query.reads.bulkheads, query.plan.is_heavy()
        with translated_errors(query.reads.seconds):
            async with query.reader.cancellable() if is_heavy else nullcontext():
                async with bulkheads.heavy_queries if is_heavy else bulkheads.small_requests:
                    if is_heavy:
                        await query.search()
                    records: list[Record] = await anext(chunks, [])
                if query.plan.has_few_values and len(records) == CHUNK:
                    await slots.enter_async_context(bulkheads.streams.slot(client))
                while len(records) == CHUNK:
                    query.require_valid(records)
                    yield await self._add_copies(records)
                    async with (
                        bulkheads.heavy_queries.acquire_for_stream() if is_heavy else nullcontext()
                    ):
                        records = await anext(chunks, [])
        if records:
            query.require_valid(records)
            yield await self._add_copies(records)

    async def _window(self, page: Page) -> tuple[Window, Timestamp | None]:
        with translated_errors(self._query.reads.seconds):
            query = await self._query_by_ids()
            if isinstance(page, NumberedPage):
                window = await _numbered_page(query, page)
            else:
                async with query.admitted(is_heavy=query.plan.is_heavy()):
                    window = await _keyset_page(query, page)
        query.require_valid(window.records)
        records = await self._add_copies([*window.records])
        return replace(window, records=records), query.reader.time


async def _keyset_page(query: CollectionQuery, page: CursorPage) -> Window:
    """Return the records after or before the position of a page: by values of its last record."""
    if page.position == END and not page.backwards:
        return Window((), more=False)  # nothing follows the end
    order = _reversed(query.order) if page.backwards else query.order
    size = page.size + 1  # one more reveals whether others follow
    following = await read_page(query, order, size, page.position or END)
    records = following[: page.size]
    if page.backwards:
        records.reverse()
    if not records:
        return Window((), more=False)
    first, last = (position_of(record, query.order) for record in (records[0], records[-1]))
    return Window(records, len(following) > page.size, first, last)


async def _numbered_page(query: CollectionQuery, page: NumberedPage) -> Window:
    """Return a page, read by skipping few records, and the total if it is requested."""
    offset, descending = (page.number - 1) * page.size, query.order[0].descending
    is_indexed = not query.filters and not query.reader.time
    if is_indexed and (page.total or offset > MAX_OFFSET):
        index = query.reads.id_indexes[query.resource_type.type]
        if query.is_by_id and (ids := index.expected(offset, descending=descending)):
            window = await _counted_page(query, page, ids.total, ids.place)
            if query.reader.time == ids.time:
                return window
            query.reader.time = None
        if ids := await index.read(offset, descending=descending):
            query.reader.time = ids.time
            return await _counted_page(query, page, ids.total, ids.place)
    if page.total:
        return await _counted_page(query, page, await _total(query))
    following = await _read_at(query, query.order, page.size + 1, offset)
    return Window(following[: page.size], len(following) > page.size)


async def _counted_page(
    query: CollectionQuery, page: NumberedPage, total: int, place: Place | None = None
) -> Window:
    """Return a page. place: of its first record in the order of the ids, if it is known."""
    offset, order = (page.number - 1) * page.size, query.order
    size, after = min(page.size, total - offset), max(0, total - offset - page.size)
    records: list[Record] = []
    if size > 0 and place and query.is_by_id:
        start = {ID: {"$lte" if order[0].descending else "$gte": place.start}}
        async with query.admitted(is_heavy=query.plan.is_heavy(place.skipped)):
            records = await query.read_first([start], order, size, place.skipped)
    elif size > 0 and offset <= after:
        records = await _read_at(query, order, size, offset)
    elif size > 0:
        records = (await _read_at(query, _reversed(order), size, after))[::-1]
    return Window(records, after > 0, total=total if page.total else None)


async def _read_at(query: CollectionQuery, order: Order, size: int, offset: int) -> list[Record]:
    """Return the records that follow the first ones in an order."""
    async with query.admitted(is_heavy=query.plan.is_heavy(offset)):
        return await read_page(query, order, size, offset=offset)


def _reversed(order: Order) -> Order:
    return tuple(replace(key, descending=not key.descending) for key in order)


async def _total(query: CollectionQuery) -> int:
    """Count few index keys as a small request, which most totals are; more as a heavy one."""
    if not query.plan.is_heavy_total(0):
        async with query.admitted(is_heavy=False):
            total = await query.count(MAX_OFFSET + 1)
        if not query.plan.is_heavy_total(total):
            return total
    async with query.admitted(is_heavy=True):
        return await (_count_related(query) if query.names_related else query.count())


async def _count_related(query: CollectionQuery) -> int:
    """Count records by the ids that link to related ones; one by one if these are too many."""
    related = sum(1 for part in query.filters for _ in related_filters(part))
    by_ids = await with_linked_ids(query, _MAX_TOTAL_IDS // related)
    if by_ids.names_related:
        return sum([len(records) async for records in read_batches(query, BY_ID)])
    return await by_ids.count()
