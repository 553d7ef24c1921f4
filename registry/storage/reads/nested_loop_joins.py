"""Sorting by fields of related resources: an index nested-loop join.

The targets of a relationship are read in the order of an index, and the records that link to them
by the index of the foreign key, a batch at a time, until the page is full. To join and sort all
records takes time proportional to their number.
"""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeAlias

from registry.jsonapi.sorting import Key, Order
from registry.model.record import Record
from registry.model.resource import Resource
from registry.storage.reads.bounded_sorts import find_first
from registry.storage.reads.join_reads import JoinReads, Search
from registry.storage.reads.sort_keys import (
    Conditions,
    before,
    beyond,
    different,
    equal,
    split,
    up_to,
    value_of,
)
from registry.storage.reads.target_groups import TargetGroups
from registry.storage.records import key_of
from registry.storage.visible_fields import only

_FEW = 1_000
"""Records that are joined and sorted all at once in the first place, which takes 10 ms."""

_MAX_SORTED = 10_000
"""Records that are joined and sorted all at once if few targets have any: 70 ms."""

_MIN_TARGETS, _MAX_TARGETS = 16, 1_000
"""Targets per batch. The first batch has a quarter more than the page has records."""

_MANY_TARGETS = 2_000
"""Targets that are read before the records are counted, up to _MAX_SORTED."""

_MAX_RECORDS = 6
"""Records of a batch for each that is needed; a batch that has more is divided."""

_LARGE_SECONDS = 10.0
"""How long a collection that had more than _FEW records is taken to have them: to skip as many
takes as long as a page."""

_Group: TypeAlias = Sequence[Record]
"""The targets that share a value of the first sort key."""


class LargeCollections:
    """The types with so many records that it need not be checked again for some time."""

    def __init__(self) -> None:
        self._until: dict[Resource, float] = {}

    def has(self, resource: Resource) -> bool:
        """Whether the type was added in the last _LARGE_SECONDS."""
        return time.monotonic() < self._until.get(resource, 0.0)

    def add(self, resource: Resource) -> None:
        """Add a type."""
        self._until[resource] = time.monotonic() + _LARGE_SECONDS


class NestedLoopJoin:
    """Finds records by looking them up for each target, in the order of fields of the targets.

    The targets are those of one to-one relationship.

    fields: the related fields of the order. Those of records without a target are null.
    large_collections: those that have recently had more than _FEW records.

    Foreign keys of external writers that name no target are in no index of the targets: their
    records are left out, unless so few satisfy the filters that all are sorted; then their related
    fields are null, too.
    """

    def __init__(
        self, fields: Sequence[str], reads: JoinReads, large_collections: LargeCollections
    ) -> None:
        self._fields = fields
        self._reads = reads
        self._groups = TargetGroups(reads)
        self._large_collections = large_collections
        self._can_sort_all: bool | None = None

    async def find(
        self, filters: Conditions, conditions: Conditions, order: Order, size: int
    ) -> list[Record]:
        """Return the first records of an order. Raises PyMongoError.

        conditions: the filters, and those on the sort keys that the page begins after.
        """
        search = Search(*split(conditions))
        if self._can_sort_all is None:
            self._can_sort_all = not await self._are_many(filters)
        if self._can_sort_all:
            return await self._reads.sort_all(conditions, order, size, 0)
        if any("$eq" in one for part in search.own[len(filters) :] for one in part.values()):
            count = await self._reads.count(_FEW + 1, search.own)
            if not count:
                return []
            if count <= _FEW:
                return await self._reads.sort_all(conditions, order, size, 0)
        return await self._find(search, order, size)

    async def _are_many(self, filters: Conditions) -> bool:
        """Whether more than _FEW records satisfy the filters."""
        if filters:
            return await self._reads.are_more(_FEW, filters)
        resource = self._reads.resource
        if not self._large_collections.has(resource) and await self._reads.are_more(_FEW, []):
            self._large_collections.add(resource)
        return self._large_collections.has(resource)

    async def _find(self, search: Search, order: Order, size: int) -> list[Record]:
        if order[0].relationship:
            return await self._find_related(search, order, size)
        if any(key.relationship for key in order):
            return await self._find_tied(search, order, size)
        if search.related:
            return await self._groups.find(search, order, size)
        return await find_first(self._reads.find, search.own, order, size)

    async def _find_tied(self, search: Search, order: Order, size: int) -> list[Record]:
        """Find records in an order whose first key is their own, and others are related.

        Sorts all records up to the last one by the first key, unless many are equal to that.
        """
        key, find = order[0], self._reads.find
        last = [] if search.related else await find(search.own, order[:1], 1, size - 1)
        if not last:
            return await self._reads.sort_all(search.all, order, size, 0)
        value = value_of(last[0], key)
        tied = search.where(equal(key, value))
        if not await self._reads.are_more(_FEW, tied.own):
            conditions = [*search.own, *up_to(key, value)]
            return await self._reads.sort_all(conditions, order, size, 0)
        records: list[Record] = []
        if preceding := before(key, value):
            records = await self._reads.sort_all([*search.own, *preceding], order, size, 0)
        return records + await self._find(tied, order[1:], size - len(records))

    async def _find_related(self, search: Search, order: Order, size: int) -> list[Record]:
        """Find records in an order whose first key is related."""
        key = order[0]
        phases = [self._find_null, self._find_not_null]
        records: list[Record] = []
        for phase in reversed(phases) if key.descending else phases:
            if len(records) < size:
                records += await phase(search, order, size - len(records))
        return records

    async def _find_null(self, search: Search, order: Order, size: int) -> list[Record]:
        """Find the records in which the first key is null."""
        if not search.accepts_null(order[0]):
            return []
        return await self._find(search.where(equal(order[0], None)), order[1:], size)

    async def _find_not_null(self, search: Search, order: Order, size: int) -> list[Record]:
        """Find the records in which the first key is not null."""
        key, count = order[0], max(_MIN_TARGETS, size + size // 4)
        search = search.where(different(key, None))
        records, rest, read, is_counted = list[Record](), search, 0, False
        while len(records) < size:
            groups, has_more = await self._next_groups(rest, key, count)
            if groups:
                records += await self._join(search, groups, order, size - len(records))
            if not has_more:
                break
            read += count
            if read >= _MANY_TARGETS and len(records) < size and not is_counted:
                if not await self._reads.are_more(_MAX_SORTED, search.own):
                    return await self._reads.sort_all(search.all, order, size, 0)
                is_counted = True
            rest = search.where(*beyond(key, groups[-1][0][key.stored_name]))
            count = max(count, min(2 * count, _MAX_TARGETS))
        return records

    async def _next_groups(self, search: Search, key: Key, count: int) -> tuple[list[_Group], bool]:
        """Return the first groups of targets, and whether others follow.

        Of several groups, each is complete.
        """
        name = key.stored_name
        sort = dict.fromkeys((name, "_id"), -1 if key.descending else 1)
        targets = await self._reads.find_targets(search, only(self._fields), sort=sort, limit=count)
        groups: list[_Group] = [list(group) for _, group in groupby(targets, itemgetter(name))]
        has_more = len(targets) == count
        if has_more and len(groups) > 1:
            groups.pop()  # other targets may have the same value
        return groups, has_more

    async def _join(
        self, search: Search, groups: Sequence[_Group], order: Order, size: int
    ) -> list[Record]:
        """Return the first records that link to the targets of groups.

        If there are many, those of the target that seems to have most are found by themselves.
        """
        key = order[0]
        if len(groups) == 1:
            value = groups[0][0].get(key.stored_name)
            return await self._find(search.where(equal(key, value)), order[1:], size)
        limit = _MAX_RECORDS * max(size, _MIN_TARGETS)
        joined = await self._join_all(search, groups, order, limit + 1)
        if len(joined) <= limit:
            return joined[:size]
        counts = Counter(key_of(record, self._reads.relationship.foreign_key) for record in joined)
        ((most, _),) = counts.most_common(1)
        places = (at for at, group in enumerate(groups) for one in group if one["_id"] == most)
        place = next(places, 0)  # external keys may be no integers
        records: list[Record] = []
        for part in (groups[:place], groups[place : place + 1], groups[place + 1 :]):
            if part and len(records) < size:
                records += await self._join(search, part, order, size - len(records))
        return records

    async def _join_all(
        self, search: Search, groups: Sequence[_Group], order: Order, limit: int
    ) -> list[Record]:
        """Return all records that link to the targets of groups, or some if they exceed the limit.

        The targets are literals: MongoDB takes 50 times as long to look up each of them again.
        """
        key, targets = self._reads.relationship.foreign_key, list(chain.from_iterable(groups))
        ids = [target["_id"] for target in targets]
        index = {"$indexOfArray": [{"$literal": ids}, f"${key}"]}
        target = {"$set": {self._reads.path: {"$arrayElemAt": [{"$literal": targets}, index]}}}
        return await self._reads.sort_some(
            search.where({key: {"$in": ids}}), order, limit, join=target
        )
