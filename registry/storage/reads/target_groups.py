"""Records whose targets form a group: those with given values of the related sort keys."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from registry.jsonapi.sorting import BY_ID, Key, Order
from registry.model.record import Record
from registry.storage.reads.bounded_sorts import find_first
from registry.storage.reads.join_reads import JoinConditions, JoinReads
from registry.storage.reads.plan_hints import PlanHints
from registry.storage.reads.sort_keys import RELATED
from registry.storage.records import ONE_BATCH, key_of
from registry.storage.visible_fields import only

_MAX_GROUP = 5_000
"""Targets of a group whose records are found by the foreign key. For larger groups, at a million
records, it is faster to read records in order and look up their targets."""

_SMALL_GROUP = 100
"""Targets that are read before the records, which takes less time than a few records."""

_MAX_READ = 2_000
"""Records to read without knowing whether the group is larger than _MAX_GROUP."""

_MAX_SORTED_GROUP = 1_000
"""Records of a group that are sorted all at once, which takes 5 ms."""

_READ_PER_RESULT = 10
"""Records that are read at first for each that is needed: enough if a tenth has a target in the
group. To read on takes as long as 100 records."""

_MANY_KNOWN = 50
"""Targets of a larger group that are known, so that it probably has more than _SMALL_GROUP."""

_FEW_RECORDS = "few records"
"""Added to the name of a group in the hints: few records link to its targets."""

NO_TARGET: Record = {"_id": None}
"""Stands for the target of records without one, whose fields are null."""


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """Targets that have the same value of a sort key; NO_TARGET may be among them.

    targets: those that are known, with the fields of the order. is_complete: whether these are all.
    """

    targets: Sequence[Record]
    is_complete: bool = True

    @property
    def ids(self) -> list[int | None]:
        """The ids of the known targets."""
        return [target["_id"] for target in self.targets]

    @property
    def has_many_targets(self) -> bool:
        """Whether there are many targets, by those that are known."""
        return len(self.targets) > _MANY_KNOWN

    def value_of(self, key: Key) -> Any:
        """Return the value of a sort key."""
        return self.targets[0].get(key.stored_name)


class TargetGroups:
    """Finds the records that link to groups of targets. The methods raise PyMongoError."""

    def __init__(self, reads: JoinReads, plan_hints: PlanHints) -> None:
        self._reads = reads
        self._plan_hints = plan_hints
        self._foreign_key = reads.relationship.foreign_key

    async def find(
        self, conditions: JoinConditions, order: Order, size: int, group: TargetGroup | None = None
    ) -> list[Record]:
        """Find records whose related fields all have given values, in the order of their own.

        group: what is known of their targets.
        """
        records: list[Record] | None = None
        if group and group.is_complete:
            records = await self._find_linked(conditions, group.ids, order, size)
        elif limit := self._limit(conditions, group):
            records = await self._find_among(conditions, limit, order, size)
        if records is None:
            self._plan_hints.add(self._name(conditions))
            records = await self._filter(conditions, order, size)
        values = self._values(conditions)
        for record in records:
            record[RELATED] = {self._reads.relationship.name: values}
        return records

    def _limit(self, conditions: JoinConditions, group: TargetGroup | None) -> int:
        """Return the maximum number of targets to read before the records."""
        name = self._name(conditions)
        if self._plan_hints.has((*name, _FEW_RECORDS)):
            return _MAX_GROUP
        is_large = (group and group.has_many_targets) or self._plan_hints.has(name)
        return 0 if is_large else _SMALL_GROUP

    def _name(self, conditions: JoinConditions) -> tuple[Hashable, ...]:
        """Return the name of a group in the hints, which is large unless _FEW_RECORDS follows."""
        return self._reads.target, repr(self._values(conditions))

    def _values(self, conditions: JoinConditions) -> Record:
        """Return the values of fields of the targets that the conditions require."""
        return {
            path: one["$eq"]
            for condition in self._reads.on_targets(conditions)
            for path, one in condition.items()
            if "$eq" in one
        }

    async def _find_among(
        self, conditions: JoinConditions, limit: int, order: Order, size: int
    ) -> list[Record] | None:
        """Find records by the targets of the group; None if these are more than a limit."""
        targets = await self._reads.find_targets(conditions, only(()), limit=limit + 1)
        if len(targets) > limit:
            return None
        untargeted = [None] if conditions.includes_untargeted else []
        ids = [*untargeted, *(target["_id"] for target in targets)]
        return await self._find_linked(conditions, ids, order, size) if ids else []

    async def _find_linked(
        self, conditions: JoinConditions, ids: Sequence[int | None], order: Order, size: int
    ) -> list[Record]:
        """Find records by foreign key, in an order of their own fields.

        MongoDB remembers plans: if for a target with many records it was faster to read the index
        of the first sort key, it would do so for one with few. So those are sorted.
        """
        linked = {self._foreign_key: {"$in": ids}}
        conditions = conditions.where(linked)
        if order[0].stored_name == BY_ID[0].stored_name or await self._reads.are_more(
            _MAX_SORTED_GROUP, [linked]
        ):
            return await find_first(self._reads.find, conditions.own, order, size)
        return await self._reads.sort_some(conditions, order, _MAX_SORTED_GROUP, {"$limit": size})

    async def _filter(
        self, conditions: JoinConditions, order: Order, size: int, *, is_large: bool = False
    ) -> list[Record]:
        """Read records in order until enough of them have a target in the group.

        is_large: whether the group has more than _MAX_GROUP targets; if it proves to have fewer,
        and few records have one of them, finds these by the targets instead. If more than half of
        the records have one target outside the group, or none, begins again without these records.
        """
        records, offset, count = list[Record](), 0, _READ_PER_RESULT * size
        while True:
            found = await find_first(self._reads.find, conditions.own, order, count, offset)
            members = await self._members(conditions, found)
            records += members
            if len(records) >= size or len(found) < count:
                return records[:size]
            if other := self._without_frequent_target(conditions, found, members):
                return await self._filter(other, order, size, is_large=is_large)
            offset += count
            # A quarter more than are needed at the rate so far, but at most twice as many.
            needed = 5 * offset * (size - len(records)) // (4 * max(1, len(records)))
            if needed > _MAX_READ and not is_large:
                linked = await self._find_among(conditions, _MAX_GROUP, order, size)
                if linked is not None:
                    self._plan_hints.add((*self._name(conditions), _FEW_RECORDS))
                    return linked
                is_large = True
            count = min(1 + needed, 2 * offset, ONE_BATCH)

    def _without_frequent_target(
        self, conditions: JoinConditions, found: Sequence[Record], members: Sequence[Record]
    ) -> JoinConditions | None:
        """Exclude records with the target, or without one, that more than half of those found have.

        members: those found that satisfy the conditions. None if they have this target, if there is
        none, or if it is excluded already: invalid foreign keys of external writers count as null.
        """
        name = self._foreign_key
        ((key, count),) = Counter(key_of(one, name) for one in found).most_common(1)
        other = {name: {"$ne": key}}
        is_member = key in {key_of(one, name) for one in members}
        if is_member or 2 * count <= len(found) or other in conditions.own:
            return None
        return conditions.where(other)

    async def _members(self, conditions: JoinConditions, records: Sequence[Record]) -> list[Record]:
        """Return those of the records whose target satisfies the conditions on its fields."""
        name = self._foreign_key
        keys = [key_of(record, name) for record in records]
        among = conditions.where({name: {"$in": list(set(keys) - {None})}})
        members = {target["_id"] for target in await self._reads.find_targets(among, only(()))}
        if conditions.includes_untargeted:
            members.add(None)
        return [record for record, key in zip(records, keys, strict=True) if key in members]
