"""Collections as a client lists them: whole, or page by page."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial

from registry.jsonapi.filtering import Filter
from registry.jsonapi.pagination import NumberedPage, Page, Window
from registry.jsonapi.query import Query
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.errors import translated_errors
from registry.storage.reads.collection_queries import CollectionQuery, ReadContext
from registry.storage.reads.keyset_pages import keyset_page

CHUNK = 1_000
"""Records of a streamed collection in memory at a time."""


class Listing:
    """The resources of a type that satisfy the filters, in the order of the query.

    query: determines the attributes too. The methods raise Unavailable or QueryTimeout.
    """

    def __init__(
        self, context: ReadContext, resource: Resource, filters: Sequence[Filter], query: Query
    ) -> None:
        self._context = context
        self._query = CollectionQuery(context, resource, filters, query)

    async def chunks(self) -> AsyncGenerator[list[Record]]:
        """Yield all records, CHUNK at a time."""
        query = self._query
        cursor = query.cursor(query.conditions, query.order, batch_size=CHUNK)
        try:
            while True:
                with translated_errors(self._context.seconds):
                    records = await query.next_batch(cursor, CHUNK)
                if not records:
                    return
                yield records
        finally:
            await cursor.close()

    async def all(self) -> list[Record]:
        """Return all records."""
        async with aclosing(self.chunks()) as chunks:
            return [record async for chunk in chunks for record in chunk]

    async def window(self, page: Page) -> Window:
        """Return a page. Its records are shared with other requests: callers must not modify them.

        Concurrent requests for the same page share its queries.
        """
        return await self._context.pages.load((*self._query.key, page), partial(self._window, page))

    async def _window(self, page: Page) -> Window:
        with translated_errors(self._context.seconds):
            if not isinstance(page, NumberedPage):
                return await keyset_page(self._query, page)
            query, offset = self._query, (page.number - 1) * page.size
            # One more reveals whether others follow.
            records = await query.find(query.conditions, query.order, page.size + 1, offset)
            total = await query.count() if page.total else None
            return Window(records[: page.size], len(records) > page.size, total=total)
