"""Collections as a client lists them: streamed as a whole, or page by page."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

from bson.timestamp import Timestamp

from registry.jsonapi.error_types import QueryTimeout
from registry.jsonapi.filtering import Condition, Filter
from registry.jsonapi.pagination import END, CursorPage, NumberedPage, Order, Page, Window
from registry.jsonapi.query import Query
from registry.jsonapi.visible_revisions import visible_revisions
from registry.model.attributes import Operator
from registry.model.record import Record
from registry.model.resource_type import ResourceType
from registry.storage.errors import translated_errors
from registry.storage.reads.plan import MAX_OFFSET, Plan, position_of
from registry.storage.reads.related import plan_of
from registry.storage.reads.snapshot import Snapshot
from registry.storage.records import fields_of


class Listing:
    """The resources of a type in a snapshot that satisfy the filters, in the order of the query.

    within: values of stored fields, by field. The methods raise Unavailable, QueryTimeout,
    or Overloaded.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        resource_type: ResourceType,
        query: Query,
        within: Mapping[str, int] | None = None,
    ) -> None:
        common: list[Filter] = [
            Condition(field, Operator.EQ, key) for field, key in (within or {}).items()
        ]
        if resource_type.subject and query.readable is not None:
            common.append(visible_revisions(resource_type, query.readable))
        self._plan = plan_of(
            snapshot,
            resource_type,
            [*common, *query.filters.values()],
            query.order,
            fields_of(resource_type, query.shown(resource_type)),
        )
        self._reads = snapshot.reads
        self._errors = partial(translated_errors, snapshot.reads.seconds)

    @asynccontextmanager
    async def chunks(self, client: str | None = None) -> AsyncIterator[AsyncIterator[list[Record]]]:
        """Yield an iterator over all records, a chunk at a time.

        The response counts as a stream until the context ends, unless an index finds all records
        and these are few. client: the one that reads the response, as Bulkhead counts it.
        """
        with self._errors():
            plan = await self._plan.follow()
            few = await self._read_few(plan)
        streams = self._reads.bulkheads.streams
        async with (
            streams.slot(client) if few is None else nullcontext(),
            aclosing(self._read_all(plan, few)) as chunks,
        ):
            yield chunks

    async def window(self, page: Page) -> Window:
        """Return a page. Concurrent requests for the same page share its queries and records.

        So callers must not modify the records.
        """
        plan = self._plan
        key, seconds = (*plan.key, page, plan.snapshot.time), self._reads.total_seconds
        try:
            async with asyncio.timeout(seconds) as limit:  # also of the wait for an equal page
                load = partial(self._window, page)
                window, plan.snapshot.time = await self._reads.pages.load(key, load)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise QueryTimeout(seconds) from error
        return window

    async def _read_few(self, plan: Plan) -> list[Record] | None:
        """Return all records if an index finds them and they are few."""
        if plan.is_heavy():
            return None
        few = self._reads.capacity.few_records
        records = await plan.page(plan.order, few)
        return records if len(records) < few else None

    async def _read_all(self, plan: Plan, few: list[Record] | None) -> AsyncGenerator[list[Record]]:
        """Yield all records; those of a heavy plan are read in its slots. few: all, if known."""
        if few is not None:
            if few:
                yield few
            return
        is_heavy, size = plan.is_heavy(), self._reads.capacity.chunk
        with self._errors():
            async with plan.snapshot.cancellable() if is_heavy else nullcontext():
                chunks = plan.stream(size)
                if is_heavy:
                    chunks = self._reads.bulkheads.heavy_requests.read_each(chunks)
                async with aclosing(chunks):
                    async for records in chunks:
                        yield records
                        if len(records) < size:
                            return  # without waiting for another slot

    async def _window(self, page: Page) -> tuple[Window, Timestamp | None]:
        with self._errors():
            plan = await self._plan.follow()
            if isinstance(page, NumberedPage):
                window = await _numbered_page(plan, page)
            else:
                window = await _keyset_page(plan, page)
        return window, plan.snapshot.time


async def _keyset_page(plan: Plan, page: CursorPage) -> Window:
    """Return the records after or before the position of a page: by values of its last record."""
    if page.position == END and not page.backwards:
        return Window((), more=False)  # nothing follows the end
    order = _reversed(plan.order) if page.backwards else plan.order
    size = page.size + 1  # one more reveals whether others follow
    following = await plan.page(order, size, page.position or END)
    records = following[: page.size]
    if page.backwards:
        records.reverse()
    if not records:
        return Window((), more=False)
    first, last = (position_of(record, plan.order) for record in (records[0], records[-1]))
    return Window(records, len(following) > page.size, first, last)


async def _numbered_page(plan: Plan, page: NumberedPage) -> Window:
    """Return a page, read by skipping few records, and the total if it is requested."""
    order, size, offset = plan.order, page.size, (page.number - 1) * page.size
    total, start, skipped = None, END, offset
    counter = await plan.counter() if page.total or offset > MAX_OFFSET else None
    if counter:
        total, is_descending = counter.count, order[0].descending
        if plan.is_by_id and (place := counter.place(offset, descending=is_descending)):
            start, skipped = (place.start + (1 if is_descending else -1),), place.skipped
    elif page.total:
        total = await plan.total()
    if total is None:
        records = await plan.page(order, size + 1, offset=offset)
        return Window(records[:size], len(records) > size)
    size, following = min(size, total - offset), max(0, total - offset - size)
    is_reversed = start == END and following < offset
    if is_reversed:  # from the nearer end
        order, skipped = _reversed(order), following
    records = await plan.page(order, size, start, skipped) if size > 0 else []
    if is_reversed:
        records.reverse()
    return Window(records, following > 0, total=total if page.total else None)


def _reversed(order: Order) -> Order:
    return tuple(replace(key, descending=not key.descending) for key in order)
