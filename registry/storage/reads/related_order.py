"""Sorting by attributes of related resources: an index nested-loop join.

Targets of a to-one relationship are read in the order of an index, a batch at a time, and the
records that link to them by the index of the foreign key.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bson.int64 import Int64

from registry.jsonapi.cursors import Position
from registry.jsonapi.filtering import Filter, Related, conjuncts
from registry.jsonapi.sorting import Order
from registry.model.record import Record
from registry.model.resource_type import Relationship
from registry.model.stored_fields import ID
from registry.storage.reads.bounded_sorts import find_after, find_first
from registry.storage.reads.collection_queries import CollectionQuery
from registry.storage.reads.filter_queries import match
from registry.storage.reads.query_commands import QueryCommands
from registry.storage.reads.related_filters import MAX_IDS, linked_ids
from registry.storage.reads.sort_keys import RELATED, Conditions, beyond, equal, position_of
from registry.storage.visible_fields import only

MAX_BATCH = 1_000
"""Records, or targets, that are read at a time."""

PER_RESULT = 10
"""Records that are read at a time for each that is needed."""

_MORE = 16
"""Targets in the first batch beyond the records that are needed: some targets have none."""

_UNLINKED: Record = {ID: None}
"""Stands for the target of records without one. All its fields are null, so it is at one end."""


class InvalidKey(Exception):
    """An external writer stored an id or a foreign key that is not an integer.

    MongoDB and Python may compare it differently, and an array links to several targets.
    """


def sorted_relationship(order: Order) -> Relationship | None:
    """Return the to-one relationship by whose targets, and then by id, an order sorts.

    None for other orders, such as those with an own field after a related one.
    """
    *keys, _ = order
    relationships = {key.relationship for key in keys}
    if len(relationships) != 1 or len({key.descending for key in order}) > 1:
        return None
    return keys[-1].relationship if keys[-1].stored_name == ID else None


class RelatedOrder:
    """Reads the records of a query in an order that has a `sorted_relationship`.

    query: runs the commands; it has no filters on related resources. filters: those, which may
    reduce the targets to read, but have to be checked for each record.

    Records whose target does not exist are left out: they are in no index of the targets.
    """

    def __init__(
        self,
        query: CollectionQuery,
        order: Order,
        relationship: Relationship,
        filters: Iterable[Filter],
    ) -> None:
        self._query = query
        self._name, self._foreign_key = relationship.name, relationship.foreign_key
        self._own_key = order[-1]
        self._order = tuple(replace(key, relationship=None) for key in order[:-1])
        self._target = query.context.graph[relationship.target]
        fields = only(key.stored_name for key in self._order)
        self._commands = QueryCommands(self._target, query.context.graph, self._order, fields)
        self._parts = [
            part.part
            for part in conjuncts(filters)
            if isinstance(part, Related) and part.relationship == relationship
        ]

    async def batches(self, position: Position, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all records after a position in batches, the first probably of `size` or more.

        Raises PyMongoError, or InvalidKey.
        """
        limit = PER_RESULT * (size + _MORE)
        if position:
            async for records in self._rest(position, limit):
                yield records
        async for targets in self._targets(position[:-1], size):
            async for records in self._linked(targets, None, limit):
                yield records

    async def _rest(self, position: Position, limit: int) -> AsyncGenerator[list[Record]]:
        """Yield the records after a position that link to the same target."""
        targets = [_UNLINKED]
        if not _is_unlinked(position[:-1]):
            there = [equal(*pair) for pair in zip(self._order, position, strict=False)]
            targets = await self._read_targets(there, self._order, 1, 0)
        async for records in self._linked(targets, position[-1], limit):
            yield records

    async def _targets(self, place: Position, size: int) -> AsyncGenerator[list[Record]]:
        """Yield all targets after a place in batches, with _UNLINKED.

        If the first batch has too few records, only targets that have any are read after it,
        unless there are many of these.
        """
        unlinked = [] if self._parts else [_UNLINKED]
        first, last = ([], unlinked) if self._own_key.descending else (unlinked, [])
        if place:
            first = []
            if _is_unlinked(place):
                if self._own_key.descending:
                    return
                place = ()
        conditions = await self._conditions()
        number, is_narrowed = size + _MORE, False
        while True:
            targets = await find_after(
                partial(find_first, self._read_targets), conditions, self._order, place, number
            )
            if len(targets) < number:
                yield [*first, *targets, *last]
                return
            yield [*first, *targets]
            if not is_narrowed:
                is_narrowed = True
                conditions += await self._having_records()
            first, place = [], position_of(targets[-1], self._order)
            number = min(2 * number, max(number, MAX_BATCH))

    async def _conditions(self) -> list[Mapping[str, Any]]:
        """Return the conditions on targets: filters, and those on the foreign key."""
        related = [match(part) for part in await self._query.searched(self._target, self._parts)]
        keys = [
            {ID: condition[self._foreign_key]}
            for condition in self._query.conditions
            if condition.keys() == {self._foreign_key}
        ]
        return [*filter(None, related), *keys]

    async def _having_records(self) -> Conditions:
        """Return the condition for targets with records of the query; none if they are many."""
        resource, conditions = self._query.resource, self._query.conditions
        ids = await linked_ids(self._query, resource, conditions, self._foreign_key, MAX_IDS)
        return [] if ids is None else [{ID: {"$in": sorted(ids)}}]

    async def _read_targets(
        self, conditions: Conditions, order: Order, size: int, offset: int
    ) -> list[Record]:
        command = self._commands.find(conditions, order, skip=offset, limit=size)
        targets = await self._query.run(command)
        _check_keys(target[ID] for target in targets)
        return targets

    async def _linked(
        self, targets: Sequence[Record], after: int | None, limit: int
    ) -> AsyncGenerator[list[Record]]:
        """Yield the records that link to targets, at most so many at a time.

        after: the id of a record of the first target; only later ones of that target are read.
        """
        most = len(targets)
        while targets:
            batch = targets[: most if after is None else 1]
            groups, complete = await self._read_linked(batch, after, limit)
            read, targets, after = batch[:complete], targets[complete:], None
            if complete < len(batch) and (begun := groups.get(batch[complete][ID])):
                read, after = batch[: complete + 1], begun[-1][ID]
            yield [
                {**record, RELATED: {self._name: target}}
                for target in read
                for record in groups.get(target[ID], ())
            ]
            most = 2 * most if read else max(1, most // PER_RESULT)

    async def _read_linked(
        self, targets: Sequence[Record], after: int | None, limit: int
    ) -> tuple[dict[int | None, list[Record]], int]:
        """Return records by target, and the number of the first targets that have all of theirs.

        If the limit is too low for all, the next one has none, or the first ones in order.
        """
        key, by_id = self._foreign_key, self._own_key
        ids = [target[ID] for target in targets]
        following = [] if after is None else beyond(by_id, after)
        conditions = [*self._query.conditions, {key: {"$in": ids}}, *following]
        order = replace(by_id, stored_name=key), by_id
        found = await self._query.read(conditions, order, limit)
        groups: dict[int | None, list[Record]] = {}
        _check_keys(record.get(key) for record in found)
        for record in found:
            groups.setdefault(record.get(key), []).append(record)
        if len(found) < limit:
            return groups, len(ids)
        *_, last = groups
        in_order = sorted(ids, key=_null_first, reverse=by_id.descending)
        incomplete = set(in_order[in_order.index(last) :])
        return groups, next(number for number, id_ in enumerate(ids) if id_ in incomplete)


def _null_first(id_: int | None) -> tuple[bool, int]:
    return id_ is not None, id_ or 0


def _is_unlinked(place: Position) -> bool:
    """Whether a place among the targets is that of _UNLINKED. place: ends with the id."""
    return place[-1] is None


def _check_keys(keys: Iterable[object]) -> None:
    """Raise InvalidKey unless all are integers or null."""
    if not {type(key) for key in keys} <= {int, Int64, type(None)}:
        raise InvalidKey
