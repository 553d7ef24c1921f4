"""Collections as a client lists them: whole, or page by page."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from registry.jsonapi.pagination import NumberedPage, Page, Window
from registry.model.record import Record
from registry.storage.errors import translated_errors
from registry.storage.reads.collection_queries import CollectionQuery, ReadContext
from registry.storage.reads.commands import PointInTime
from registry.storage.reads.keyset_pages import keyset_page

CHUNK = 1_000
"""Records of a streamed collection in memory at a time."""


class Listing:
    """The resources of a type that satisfy the filters, in the order of the query.

    query: determines the attributes too. The methods raise Unavailable or QueryTimeout.
    """

    def __init__(self, context: ReadContext, query: CollectionQuery) -> None:
        self._context = context
        self._query = query

    async def chunks(self) -> AsyncGenerator[list[Record]]:
        """Yield all records, CHUNK at a time."""
        with translated_errors(self._context.seconds):
            async with aclosing(self._query.stream(CHUNK)) as chunks:
                async for records in chunks:
                    yield records

    async def all(self) -> list[Record]:
        """Return all records."""
        async with aclosing(self.chunks()) as chunks:
            return [record async for chunk in chunks for record in chunk]

    async def window(self, page: Page) -> Window:
        """Return a page. Its records are shared with other requests: callers must not modify them.

        Concurrent requests for the same page share its queries.
        """
        point = self._query.point
        key = *self._query.key, page, point.time
        window, shared = await self._context.pages.load(key, partial(self._window, page))
        point.time = shared.time
        return window

    async def _window(self, page: Page) -> tuple[Window, PointInTime]:
        with translated_errors(self._context.seconds):
            if isinstance(page, NumberedPage):
                window = await self._numbered_page(page)
            else:
                window = await keyset_page(self._query, page)
        return window, self._query.point

    async def _numbered_page(self, page: NumberedPage) -> Window:
        query, offset = self._query, (page.number - 1) * page.size
        # One more reveals whether others follow.
        records = await query.find(query.conditions, query.order, page.size + 1, offset)
        total = await query.count() if page.total else None
        return Window(records[: page.size], len(records) > page.size, total=total)
