"""Sorting by fields of related resources: an index nested-loop join.

The targets of a relationship are read in the order of an index, and the records that link to them
by the index of the foreign key, a batch at a time, until the page is full. To join and sort all
records takes time proportional to their number.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from registry.jsonapi.sorting import BY_ID, Key, Order
from registry.model.record import Record
from registry.storage.reads.bounded_sorts import find_first
from registry.storage.reads.join_reads import JoinConditions, JoinReads
from registry.storage.reads.plan_hints import PlanHints
from registry.storage.reads.sort_keys import (
    Conditions,
    before,
    beyond,
    equal,
    split,
    up_to,
    value_of,
)
from registry.storage.reads.target_groups import NO_TARGET, TargetGroup, TargetGroups
from registry.storage.records import key_of
from registry.storage.visible_fields import only

_MAX_SORTED_FIRST = 1_000
"""Records that are joined and sorted all at once in the first place, which takes 10 ms."""

_MAX_SORTED_LATER = 10_000
"""Records that are joined and sorted all at once if few targets have any: 70 ms."""

_MIN_TARGETS, _MAX_TARGETS = 16, 1_000
"""Targets per batch. The first batch has a quarter more than the page has records."""

_MANY_TARGETS = 2_000
"""Targets that are read before the records are counted, up to _MAX_SORTED_LATER."""

_MAX_RECORDS = 6
"""Records of a batch for each that is needed; a batch that has more is divided."""


class NestedLoopJoin:
    """Finds records by looking them up for each target, in the order of fields of the targets.

    The targets are those of one to-one relationship.

    fields: the related fields of the order. Those of records without a target are null.
    plan_hints: types with more than _MAX_SORTED_FIRST records, relationships with many records
    without a target, and groups of targets that are large or have few records.

    Foreign keys of external writers that name no target are in no index of the targets: their
    records are left out, unless so few satisfy the filters that all are sorted; then their related
    fields are null, too.
    """

    def __init__(self, fields: Sequence[str], reads: JoinReads, plan_hints: PlanHints) -> None:
        self._fields = fields
        self._reads = reads
        self._groups = TargetGroups(reads, plan_hints)
        self._plan_hints = plan_hints
        self._untargeted = reads.resource, reads.relationship
        self._can_sort_all: bool | None = None

    async def find(
        self, filters: Conditions, conditions: Conditions, order: Order, size: int
    ) -> list[Record]:
        """Return the first records of an order. Raises PyMongoError.

        conditions: the filters, and those on the sort keys that the page begins after.
        """
        separated = JoinConditions(*split(conditions))
        if self._can_sort_all is None:
            self._can_sort_all = not await self._are_many(filters)
        if self._can_sort_all:
            return await self._reads.sort_all(conditions, order, size, 0)
        # A page that begins among equal keys often has only few records left.
        if _has_equality(separated.own[len(filters) :]):
            count = await self._reads.count(_MAX_SORTED_FIRST + 1, separated.own)
            if not count:
                return []
            if count <= _MAX_SORTED_FIRST:
                return await self._reads.sort_all(conditions, order, size, 0)
        return await self._find(separated, order, size)

    async def _are_many(self, filters: Conditions) -> bool:
        """Whether more than _MAX_SORTED_FIRST records satisfy the filters."""
        if filters:
            return await self._reads.are_more(_MAX_SORTED_FIRST, filters)
        resource = self._reads.resource
        if not self._plan_hints.has(resource):
            if not await self._reads.are_more(_MAX_SORTED_FIRST, []):
                return False
            self._plan_hints.add(resource)
        return True

    async def _find(
        self, conditions: JoinConditions, order: Order, size: int, group: TargetGroup | None = None
    ) -> list[Record]:
        """Find records. group: what is known of the targets, if they form a group."""
        if order[0].relationship:
            return await self._find_related(conditions, order, size)
        if any(key.relationship for key in order):
            return await self._find_tied(conditions, order, size)
        if conditions.related:
            return await self._groups.find(conditions, order, size, group)
        return await find_first(self._reads.find, conditions.own, order, size)

    async def _find_tied(self, conditions: JoinConditions, order: Order, size: int) -> list[Record]:
        """Find records in an order whose first key is their own, and others are related.

        Sorts all records up to the last one by the first key, unless many are equal to that.
        """
        key, find = order[0], self._reads.find
        last = [] if conditions.related else await find(conditions.own, order[:1], 1, size - 1)
        if not last:
            return await self._reads.sort_all(conditions.all, order, size, 0)
        value = value_of(last[0], key)
        tied = conditions.where(equal(key, value))
        if not await self._reads.are_more(_MAX_SORTED_FIRST, tied.own):
            bounds = up_to(key, value)
            return await self._reads.sort_all([*conditions.own, *bounds], order, size, 0)
        records: list[Record] = []
        if preceding := before(key, value):
            records = await self._reads.sort_all([*conditions.own, *preceding], order, size, 0)
        return records + await self._find(tied, order[1:], size - len(records))

    async def _find_related(
        self, conditions: JoinConditions, order: Order, size: int
    ) -> list[Record]:
        """Find records in an order whose first key is related."""
        key, count = order[0], max(_MIN_TARGETS, size + size // 4)
        records, rest, read, is_counted = list[Record](), conditions, 0, False
        while True:
            groups, has_more = await self._next_groups(rest, key, count)
            records += await self._join(conditions, groups, order, size - len(records))
            if len(records) >= size or not has_more:
                return records
            following = beyond(key, groups[-1].value_of(key))
            if not following:
                return records
            rest = conditions.where(*following)
            read += count
            if read >= _MANY_TARGETS and not is_counted:
                if not await self._reads.are_more(_MAX_SORTED_LATER, conditions.own):
                    return await self._reads.sort_all(conditions.all, order, size, 0)
                is_counted = True
            count = max(count, min(2 * count, _MAX_TARGETS))

    async def _next_groups(
        self, conditions: JoinConditions, key: Key, count: int
    ) -> tuple[list[TargetGroup], bool]:
        """Return the first groups of targets, and whether others follow."""
        name = key.stored_name
        sort = dict.fromkeys((name, "_id"), -1 if key.descending else 1)
        targets = await self._reads.find_targets(
            conditions, only(self._fields), sort=sort, limit=count
        )
        has_more = len(targets) == count
        if conditions.includes_untargeted and not (key.descending and has_more):
            targets.insert(len(targets) if key.descending else 0, NO_TARGET)
        groups = [
            TargetGroup(list(group)) for _, group in groupby(targets, lambda one: one.get(name))
        ]
        if has_more:
            last = groups.pop()  # other targets may have the same value
            if not groups or last.has_many_targets:
                groups.append(replace(last, is_complete=False))
        return groups, has_more

    async def _join(
        self, conditions: JoinConditions, groups: Sequence[TargetGroup], order: Order, size: int
    ) -> list[Record]:
        """Return the first records that link to the targets of groups.

        Those of a group that seems to have many are found by themselves.
        """
        if not groups or size <= 0:
            return []
        index = self._large_group(groups)
        if index is None:
            limit = _MAX_RECORDS * max(size, _MIN_TARGETS)
            joined = await self._join_some(conditions, groups, order, size, limit + 1)
            if len(joined) <= limit:
                return joined[:size]
            index = self._most_frequent(joined, groups)
        records = await self._join(conditions, groups[:index], order, size)
        if len(records) < size:
            records += await self._join_group(conditions, groups[index], order, size - len(records))
        following = groups[index + 1 :]
        return records + await self._join(conditions, following, order, size - len(records))

    def _large_group(self, groups: Sequence[TargetGroup]) -> int | None:
        """Return the index of a group that probably has many records; None if none has."""
        for index, group in enumerate(groups):
            if not group.is_complete or (
                None in group.ids and self._plan_hints.has(self._untargeted)
            ):
                return index
        return None

    def _most_frequent(self, joined: Sequence[Record], groups: Sequence[TargetGroup]) -> int:
        """Return the index of the group with the target to which most records link."""
        counts = Counter(key_of(record, self._reads.relationship.foreign_key) for record in joined)
        ((most, _),) = counts.most_common(1)
        if most is None:
            self._plan_hints.add(self._untargeted)
        indexes = (index for index, group in enumerate(groups) if most in group.ids)
        return next(indexes, 0)  # foreign keys of external writers may not be integers

    async def _join_group(
        self, conditions: JoinConditions, group: TargetGroup, order: Order, size: int
    ) -> list[Record]:
        """Return the first records that link to the targets of a group."""
        if not group.is_complete and _continues_by_id(order):
            return await self._join_by_id(conditions, group, order, size)
        target, *others = group.targets
        keys = order[:1]
        if group.is_complete and not others:
            keys = tuple(key for key in order if key.relationship)
        tied = conditions.where(*(equal(key, target.get(key.stored_name)) for key in keys))
        rest = tuple(key for key in order if key not in keys)
        return await self._find(tied, rest, size, group)

    async def _join_by_id(
        self, conditions: JoinConditions, group: TargetGroup, order: Order, size: int
    ) -> list[Record]:
        """Return the first records that link to the targets of a group, in the order of their ids.

        First those of the known targets, which are in this order, then those of the others.
        """
        tied = conditions.where(equal(order[0], group.value_of(order[0])))
        known = [TargetGroup([target]) for target in group.targets]
        records = await self._join(tied, known, order[1:], size)
        if len(records) < size:
            others = tied.where(*beyond(order[1], group.targets[-1]["_id"]))
            records += await self._find(others, order[1:], size - len(records))
        return records

    async def _join_some(
        self,
        conditions: JoinConditions,
        groups: Sequence[TargetGroup],
        order: Order,
        size: int,
        limit: int,
    ) -> list[Record]:
        """Return the first records that link to the targets of groups.

        size: the number that is needed; more are returned unless an index has the order. If they
        are as many as the limit, they may be any that link to the targets.
        """
        targets = [target for group in groups for target in group.targets]
        if _is_by_target(order):
            count = size if _is_target_id(order[0]) else limit
            records = await self._reads.find_linked(conditions, targets, order, count)
            if records is not None:
                return records
        return await self._join_all(conditions, targets, order, limit)

    async def _join_all(
        self, conditions: JoinConditions, targets: Sequence[Record], order: Order, limit: int
    ) -> list[Record]:
        """Return all records that link to targets, or some if they exceed the limit.

        The targets are literals: MongoDB takes 50 times as long to look up each of them again.
        """
        key = self._reads.relationship.foreign_key
        ids = [target["_id"] for target in targets]
        index = {"$indexOfArray": [{"$literal": ids}, {"$ifNull": [f"${key}", None]}]}
        join = {"$set": {self._reads.path: {"$arrayElemAt": [{"$literal": targets}, index]}}}
        return await self._reads.sort_some(
            conditions.where({key: {"$in": ids}}), order, limit, join=join
        )


def _is_target_id(key: Key) -> bool:
    return key.relationship is not None and key.stored_name == BY_ID[0].stored_name


def _continues_by_id(order: Order) -> bool:
    """Whether the second key is the id of the targets, in the direction of the first."""
    return _is_target_id(order[1]) and order[1].descending == order[0].descending


def _is_by_target(order: Order) -> bool:
    """Whether an order is the one in which targets are read, then that of the ids of records."""
    is_read = len(order) == 2 or (len(order) == 3 and _continues_by_id(order))
    return is_read and _is_target_id(order[-2]) and order[-1].descending == order[0].descending


def _has_equality(conditions: Conditions) -> bool:
    return any("$eq" in one for condition in conditions for one in condition.values())
