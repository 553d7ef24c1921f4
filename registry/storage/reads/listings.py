"""Collections as a client lists them: streamed as a whole, or page by page."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

from bson.timestamp import Timestamp

from registry.jsonapi.error_types import QueryTimeout
from registry.jsonapi.filtering import Condition, related_filters
from registry.jsonapi.pagination import BY_ID, END, CursorPage, NumberedPage, Order, Page, Window
from registry.jsonapi.query import Query
from registry.model.attributes import Operator
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.storage.counters import Place
from registry.storage.errors import translated_errors
from registry.storage.reads.collection_query import (
    MAX_OFFSET,
    CollectionQuery,
    finds_related,
    position_of,
)
from registry.storage.reads.related_reads import (
    MAX_BATCH,
    read_batches,
    read_chunks,
    read_page,
    with_linked_ids,
)
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import fields_of

CHUNK = 1_000
"""Records of a streamed collection in memory at a time."""

_FEW = 100
"""Fewer records than this are read as a page; of more, the response is a stream."""

_MAX_TOTAL_IDS = 500_000
"""Ids in the conditions of a total: each takes up to 18 bytes of a command of at most 16 MiB."""


class Listing:
    """The resources of a type in a snapshot that satisfy the filters, in the order of the query.

    within: values of stored fields, by field. The methods raise Unavailable, QueryTimeout,
    Overloaded, or InvalidRecord.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        resource_type: ResourceType,
        query: Query,
        within: Mapping[str, int] | None = None,
    ) -> None:
        common = (Condition(field, Operator.EQ, key) for field, key in (within or {}).items())
        self._names = query.attributes(resource_type)
        self._query = CollectionQuery(
            snapshot,
            resource_type,
            [*common, *query.filters.values()],
            query.order,
            fields_of(resource_type, self._names),
        )
        self._reads = snapshot.reads
        self._errors = partial(translated_errors, snapshot.reads.seconds)

    @asynccontextmanager
    async def chunks(self, client: str | None = None) -> AsyncIterator[AsyncIterator[list[Record]]]:
        """Yield an iterator over all records, CHUNK at a time.

        The response counts as a stream until the context ends, unless an index finds all records
        and these are few. client: the one that reads the response, as Bulkhead counts it.
        """
        with self._errors():
            query = await self._query_by_ids()
            few = await self._read_few(query)
        streams = self._reads.bulkheads.streams
        async with (
            streams.slot(client) if few is None else nullcontext(),
            aclosing(self._read_all(query, few)) as chunks,
        ):
            yield chunks

    async def window(self, page: Page) -> Window:
        """Return a page. Concurrent requests for the same page share its queries and records.

        So callers must not modify the records.
        """
        query = self._query
        key, seconds = (*query.key, page, query.snapshot.time), self._reads.total_seconds
        try:
            async with asyncio.timeout(seconds) as limit:  # also of the wait for an equal page
                load = partial(self._window, page)
                window, query.snapshot.time = await self._reads.pages.load(key, load)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise QueryTimeout(seconds) from error
        return window

    async def _query_by_ids(self) -> CollectionQuery:
        """Return the query by ids instead of related resources, if indexes find few of these."""
        query = self._query
        if query.names_related and finds_related(query.filters, self._reads.unindexed):
            async with self._reads.bulkheads.small_requests:
                query = await with_linked_ids(query, MAX_BATCH)
        return query

    async def _read_few(self, query: CollectionQuery) -> list[Record] | None:
        """Return all records if an index finds them and they are few."""
        if query.is_heavy():
            return None
        async with query.admitted(is_heavy=False):
            records = await read_page(query, query.order, _FEW)
        return records if len(records) < _FEW else None

    async def _complete(self, query: CollectionQuery, records: list[Record]) -> list[Record]:
        """Return the records with what they copy from others. Raises InvalidRecord."""
        query.require_valid(records)
        return await query.snapshot.with_copies(query.resource_type, records, self._names)

    async def _read_all(
        self, query: CollectionQuery, few: list[Record] | None
    ) -> AsyncGenerator[list[Record]]:
        """Yield all records; those of a heavy query are read in its slots. few: all, if known."""
        if few is not None:
            if few:
                yield await self._complete(query, few)
            return
        is_heavy, heavy_requests = query.is_heavy(), self._reads.bulkheads.heavy_requests
        with self._errors():
            async with (
                query.snapshot.cancellable() if is_heavy else nullcontext(),
                aclosing(read_chunks(query, CHUNK)) as chunks,
            ):
                async with heavy_requests if is_heavy else nullcontext():
                    records: list[Record] = await anext(chunks, [])
                while records:
                    yield await self._complete(query, records)
                    if len(records) < CHUNK:
                        return  # without waiting for another slot
                    async with (
                        heavy_requests.slot(is_refusable=False) if is_heavy else nullcontext()
                    ):
                        records = await anext(chunks, [])

    async def _window(self, page: Page) -> tuple[Window, Timestamp | None]:
        with self._errors():
            query = await self._query_by_ids()
            if isinstance(page, NumberedPage):
                window = await _numbered_page(query, page)
            else:
                async with query.admitted(is_heavy=query.is_heavy()):
                    window = await _keyset_page(query, page)
        records = await self._complete(query, [*window.records])
        return replace(window, records=records), query.snapshot.time


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
    snapshot = query.snapshot
    if not query.filters and (page.total or offset > MAX_OFFSET):
        async with query.admitted(is_heavy=False):
            counter, snapshot.time = await snapshot.reads.read_counter(
                query.resource_type, snapshot.time
            )
        place = counter.place(offset, descending=descending)
        return await _counted_page(query, page, counter.count, place)
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
        async with query.admitted(is_heavy=query.is_heavy(place.skipped)):
            records = await query.read_first([start], order, size, place.skipped)
    elif size > 0 and offset <= after:
        records = await _read_at(query, order, size, offset)
    elif size > 0:
        records = (await _read_at(query, _reversed(order), size, after))[::-1]
    return Window(records, after > 0, total=total if page.total else None)


async def _read_at(query: CollectionQuery, order: Order, size: int, offset: int) -> list[Record]:
    """Return the records that follow the first ones in an order."""
    async with query.admitted(is_heavy=query.is_heavy(offset)):
        return await read_page(query, order, size, offset=offset)


def _reversed(order: Order) -> Order:
    return tuple(replace(key, descending=not key.descending) for key in order)


async def _total(query: CollectionQuery) -> int:
    """Count few index keys as a small request, which most totals are; more as a heavy one."""
    if not query.is_heavy():
        async with query.admitted(is_heavy=False):
            total = await query.count(MAX_OFFSET + 1)
        if total <= MAX_OFFSET:
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
