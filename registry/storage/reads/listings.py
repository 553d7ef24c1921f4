"""Collections as a client lists them: whole, or page by page."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TypeVar

from registry.jsonapi.pagination import NumberedPage, Page, Window
from registry.model.record import Record
from registry.storage.errors import QueryTimeout, translated_errors
from registry.storage.mongo.read_commands import PointInTime
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.joined_reads import in_chunks
from registry.storage.reads.keyset_pages import keyset_page
from registry.storage.reads.numbered_pages import numbered_page
from registry.storage.reads.read_context import ReadContext
from registry.storage.reads.related_filters import are_counted_by_indexes, with_ids
from registry.storage.reads.related_order import MAX_BATCH

_Result = TypeVar("_Result")

CHUNK = 1_000
"""Records of a streamed collection in memory at a time."""


class Listing:
    """The resources of a type that satisfy the filters, in the order of the query.

    query: determines the attributes too. The methods raise Unavailable, QueryTimeout, or
    BulkheadFull.
    """

    def __init__(self, context: ReadContext, query: CollectionQuery) -> None:
        self._context = context
        self._query = query

    @asynccontextmanager
    async def chunks(self, client: str | None = None) -> AsyncIterator[AsyncIterator[list[Record]]]:
        """Yield an iterator over all records, CHUNK at a time.

        The response counts as a stream until the context ends, unless it is small. client: the one
        that it waits for, as of a Bulkhead.
        """
        with translated_errors(self._context.seconds):
            query = await self._query_by_ids()
        async with (
            query.stream(in_chunks(query, CHUNK), CHUNK, client) as batches,
            aclosing(self._translate_errors(batches)) as chunks,
        ):
            yield chunks

    async def _translate_errors(
        self, batches: AsyncIterator[list[Record]]
    ) -> AsyncGenerator[list[Record]]:
        with translated_errors(self._context.seconds):
            async for records in batches:
                yield records

    async def _query_by_ids(self) -> CollectionQuery:
        """Return the query by ids instead of related resources, if indexes find few of these."""
        query = self._query
        if query.names_related and are_counted_by_indexes(query.filters):
            async with self._context.bulkheads.small_requests:
                query = await with_ids(query, MAX_BATCH)
        return query

    async def all(self) -> AsyncGenerator[list[Record]]:
        """Yield all records as `chunks` does; the response counts as a stream until the last."""
        async with self.chunks() as chunks:
            async for records in chunks:
                yield records

    async def window(self, page: Page) -> Window:
        """Return a page. Concurrent requests for the same page share its queries and records.

        So callers must not modify the records, except by `make_ids_hashable`.
        """
        point = self._query.point
        key = *self._query.key, page, point.time
        load = self._context.pages.load(key, partial(self._window, page))
        is_limited = isinstance(page, NumberedPage) or not self._query.is_indexed
        window, shared = await (self._in_time(load) if is_limited else load)
        point.time = shared.time
        return window

    async def _in_time(self, load: Awaitable[_Result]) -> _Result:
        """Limit the time of a page, also of the wait for an equal one that is in progress."""
        seconds = self._context.total_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                return await load
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise QueryTimeout(seconds) from error

    async def _window(self, page: Page) -> tuple[Window, PointInTime]:
        with translated_errors(self._context.seconds):
            query = await self._query_by_ids()
            if isinstance(page, NumberedPage):
                window = await numbered_page(query, page)
            else:
                async with query.slot(is_heavy=not query.is_indexed):
                    window = await keyset_page(query, page)
        return window, query.point
