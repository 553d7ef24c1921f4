"""Collections as they are listed: filtered, in an order, as a whole or a page of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from motor.motor_asyncio import AsyncIOMotorCollection
from pymongo import ASCENDING, DESCENDING
from pymongo.errors import ExecutionTimeout

from registry.jsonapi.cursors import END, Position
from registry.jsonapi.errors import QueryTooSlow
from registry.jsonapi.filtering import Filter
from registry.jsonapi.pagination import CursorPage, NumberedPage, Page, Window
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import BY_ID, Key, Order
from registry.model.graph import Graph
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.batching import Coalescer
from registry.storage.client import answering_unavailable
from registry.storage.projections import fields_of, only
from registry.storage.reads.filter_queries import all_of, match
from registry.storage.reads.range_scans import RangeQuery, RangeScans
from registry.storage.records import Stage

CHUNK = 1_000
"""Records a streamed collection holds at a time."""

_RELATED = "_related"
"""The field of a listed record that holds what it is sorted by of related resources."""

_FOUND = "_found"
"""The field that holds a related record for as long as that is read."""


class Listing:
    """The resources of a type that fulfil all conditions, in the order of the query.

    query: also tells which attributes to find. seconds: how long the database may take for what is
    more than a walk along the ids. pages, range_scans: what other listings share. Its methods raise
    Unavailable, and QueryTooSlow after that time.
    """

    def __init__(
        self,
        records: AsyncIOMotorCollection[Record],
        resource: Resource,
        graph: Graph,
        conditions: Sequence[Filter],
        query: Query,
        seconds: float,
        pages: Coalescer[Window],
        range_scans: RangeScans,
    ) -> None:
        self._records = records
        self._resource = resource
        self._graph = graph
        self._conditions = [condition for condition in map(match, conditions) if condition]
        self._order = order = query.order
        self._seconds = seconds
        self._pages = pages
        self._range_scans = range_scans
        self._relationships = {key.relationship for key in order if key.relationship}
        self._columns = fields_of(resource, query.attributes(resource))
        self._key = resource.type, tuple(conditions), order, self._columns
        # Cursors are made of what the order compares.
        self._visible = only([*self._columns, *(_path(key).partition(".")[0] for key in order)])

    async def chunks(self) -> AsyncGenerator[list[Record]]:
        """Yield all records, CHUNK at a time."""
        cursor = self._cursor(self._conditions, self._order, batch=CHUNK)
        try:
            while True:
                with self._answering():
                    records = await cursor.to_list(CHUNK)
                if not records:
                    return
                yield records
        finally:
            await cursor.close()

    async def all(self) -> list[Record]:
        """Return all records at once."""
        async with aclosing(self.chunks()) as chunks:
            return [record async for chunk in chunks for record in chunk]

    async def window(self, page: Page) -> Window:
        """Return a page.

        Its records are those of other requests too: nobody may change them.
        """
        return await self._pages.load((*self._key, page), partial(self._window, page))

    async def _window(self, page: Page) -> Window:
        with self._answering():
            if isinstance(page, NumberedPage):
                return await self._numbered(page)
            return await self._beside_cursor(page)

    async def _numbered(self, page: NumberedPage) -> Window:
        skip = (page.number - 1) * page.size
        found = await self._find(self._conditions, self._order, page.size + 1, skip)
        total = await self._count() if page.total else None
        return Window(found[: page.size], len(found) > page.size, total=total)

    async def _beside_cursor(self, page: CursorPage) -> Window:
        if page.position == END and not page.backwards:
            return Window((), more=False)  # nothing follows the end
        order = _reversed(self._order) if page.backwards else self._order
        found = await self._from(self._conditions, order, page.position or END, page.size + 1)
        records = found[: page.size]
        if page.backwards:
            records.reverse()
        if not records:
            return Window((), more=False)
        first, last = (_position(record, self._order) for record in (records[0], records[-1]))
        return Window(records, len(found) > page.size, first, last)

    async def _from(
        self, conditions: list[dict[str, Any]], order: Order, position: Position, most: int
    ) -> list[Record]:
        """Return the first records after a position.

        They share its first value and follow in the other keys, or else they go beyond it: each
        of the two is a range of an index, however far on the position is.
        """
        if not position:
            return await self._first(conditions, order, most)
        (key, *rest), (value, *values) = order, position
        found: list[Record] = []
        if rest:
            same = {_path(key): {"$eq": value}}
            found = await self._from([*conditions, same], tuple(rest), tuple(values), most)
        beyond = _beyond(key, value)
        if len(found) < most and beyond:
            # Those that changed their places in the meantime may be found again: as many as are
            # wanted in all are enough even then.
            more = await self._first([*conditions, *beyond], order, most)
            if not found:
                return more
            met = {record["_id"] for record in found}
            found += [record for record in more if record["_id"] not in met]
        return found[:most]

    async def _first(
        self, conditions: list[dict[str, Any]], order: Order, most: int
    ) -> list[Record]:
        """Return the first records of an order.

        Where an index serves no more than its first key, that key alone tells which value the last
        of them has; then nothing beyond that value needs to be sorted.
        """
        if self._is_served_in_part(order):
            edge = await self._find(conditions, order[:1], 1, most - 1)
            if edge:
                (value,) = _position(edge[0], order[:1])
                within = [*conditions, *_as_far_as(order[0], value)]
                found = await self._find(within, order, most)
                if len(found) == most:
                    return found  # fewer if some were deleted in the meantime: others follow
        return await self._find(conditions, order, most)

    def _is_served_in_part(self, order: Order) -> bool:
        """Whether an index has the first key, but none has this order: that is a key and the id."""
        if self._relationships:
            return False
        directions = {key.descending for key in order}
        return len(order) > 2 or len(directions) > 1

    async def _find(
        self, conditions: list[dict[str, Any]], order: Order, most: int, skip: int = 0
    ) -> list[Record]:
        if not skip and self._is_range_scan(conditions, order):
            direction = DESCENDING if order[0].descending else ASCENDING
            step = RangeQuery(conditions, direction, most, self._columns)
            return await self._range_scans.find(self._resource, step)
        # With room for one more, the first batch is the last one too.
        cursor = self._cursor(conditions, order, most, skip, batch=most + 1)
        found: list[Record] = await cursor.to_list(None)
        return found

    def _is_range_scan(self, conditions: list[dict[str, Any]], order: Order) -> bool:
        """Whether it takes no longer than there are records wanted, with an index to follow."""
        on_ids = all(condition.keys() == {BY_ID[0].column} for condition in conditions)
        of_ids = order[0].column == BY_ID[0].column and not self._relationships
        return of_ids and on_ids and not self._conditions

    async def _count(self) -> int:
        return await self._records.count_documents(
            all_of(self._conditions), maxTimeMS=self._milliseconds
        )

    def _cursor(
        self,
        conditions: list[dict[str, Any]],
        order: Order,
        most: int = 0,
        skip: int = 0,
        *,
        batch: int,
    ) -> Any:
        """Return a cursor of motor; that of `find`, which is faster, where it is enough."""
        sort = [(_path(key), DESCENDING if key.descending else ASCENDING) for key in order]
        if self._relationships:
            stages = self._stages(conditions, dict(sort), most, skip)
            return self._records.aggregate(
                stages, batchSize=batch, maxTimeMS=self._milliseconds, allowDiskUse=True
            )
        is_walk = not skip and self._is_range_scan(conditions, order)
        return self._records.find(
            all_of(conditions),
            self._visible,
            sort=sort,
            skip=skip,
            limit=most,
            batch_size=batch,
            max_time_ms=None if is_walk else self._milliseconds,
            allow_disk_use=True,
        )

    def _stages(
        self,
        conditions: list[dict[str, Any]],
        sort: dict[str, int],
        most: int,
        skip: int,
    ) -> list[Stage]:
        own = len(self._conditions)  # those that follow are about related resources too
        return [
            {"$match": all_of(conditions[:own])},
            *self._lookups(),
            {"$match": all_of(conditions[own:])},
            {"$sort": sort},
            *([{"$skip": skip}] if skip else []),
            *([{"$limit": most}] if most else []),
            {"$project": self._visible},
        ]

    def _lookups(self) -> Iterator[Stage]:
        """Yield what adds the fields that the order needs of each related resource."""
        for relationship in self._relationships:
            columns = [key.column for key in self._order if key.relationship == relationship]
            # With a pipeline of its own, a look-up takes seven times as long.
            yield {
                "$lookup": {
                    "from": self._graph[relationship.target].collection,
                    "localField": relationship.foreign_key,
                    "foreignField": "_id",
                    "as": _FOUND,
                }
            }
            shown = {column: {"$first": f"${_FOUND}.{column}"} for column in columns}
            yield {"$set": {f"{_RELATED}.{relationship.name}": shown, _FOUND: "$$REMOVE"}}

    @property
    def _milliseconds(self) -> int:
        return round(self._seconds * 1_000)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        with answering_unavailable():
            try:
                yield
            except ExecutionTimeout as error:
                raise QueryTooSlow(self._seconds) from error


def _reversed(order: Order) -> Order:
    return tuple(replace(key, descending=not key.descending) for key in order)


def _path(key: Key) -> str:
    return f"{_RELATED}.{key.relationship.name}.{key.column}" if key.relationship else key.column


def _position(record: Record, order: Order) -> Position:
    return tuple(_value(record, _path(key)) for key in order)


def _value(record: Record, path: str) -> Any:
    found: Any = record
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _beyond(key: Key, value: str | int | None) -> list[dict[str, Any]]:
    """Return the condition of what follows all that have this value; none if nothing does.

    MongoDB compares `$gt` and `$lt` within one type; null, which comes first, is another.
    """
    path = _path(key)
    if value is None:
        return [] if key.descending else [{path: {"$ne": None}}]
    if not key.descending:
        return [{path: {"$gt": value}}]
    return [{path: {"$lt": value}} if path == "_id" else {path: {"$not": {"$gte": value}}}]


def _as_far_as(key: Key, value: str | int | None) -> list[dict[str, Any]]:
    """Return the condition of what is not beyond this value; none if nothing is."""
    path = _path(key)
    if key.descending:
        return [] if value is None else [{path: {"$gte": value}}]
    return [{path: {"$eq": None} if value is None else {"$not": {"$gt": value}}}]
