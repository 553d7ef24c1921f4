"""Histories of links: the periods that begin and end with the changes of a unit of work."""

import datetime
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from registry.model.authorship import CREATED_BY, UPDATED_BY
from registry.model.graph import Graph
from registry.model.history import TrackedLink, tracked_links
from registry.model.period import BEGINNING, UNTIL
from registry.model.record import ID, Record
from registry.model.resource_type import ResourceType
from registry.offloading import offload
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.mongo.transactions import Transaction, Transactions
from registry.storage.schema.link_periods import (
    STEP,
    LinkPeriods,
    copied_values,
    new_period,
    read_target_copies,
)
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.identity_map import IdentityMap, RecordChange, RecordKey


@dataclass(frozen=True, slots=True)
class _LinkChange:
    """A change of a link by one request.

    before, after: the record that stores it, {} if there is none. old_target: the record of the
    target that it had, before the request; None if it is not among the records.
    """

    key: RecordKey
    before: Record
    after: Record
    old_target_id: int | None
    new_target_id: int | None
    old_target: Record | None


@dataclass(frozen=True, slots=True)
class _PeriodChange:
    """The beginning or the end of a period.

    fields: what is stored of the period. is_new: whether the period is not stored yet.
    target_to_copy: the id of the target, if its attributes have to be read and copied.
    """

    tracked: TrackedLink
    fields: Record
    is_new: bool
    target_to_copy: int | None = None


class LinkHistories:
    """The periods of the links that a unit of work changes, request by request.

    time: of the changes, as stored. records: those of the unit, which get the period in force.
    load_order: all types, those with links that have a history before the others.
    """

    def __init__(
        self,
        transaction: Transaction,
        graph: Graph,
        counters: Counters,
        records: IdentityMap,
        time: str,
    ) -> None:
        self._transaction = transaction
        self._links = list(tracked_links(graph))
        sources = {tracked.source.type: tracked.source for tracked in self._links}
        self.load_order = list({**sources, **graph}.values())
        self._counters = counters
        self._records = records
        self._time = datetime.datetime.fromisoformat(time)
        self._changes: list[_PeriodChange] = []
        self._savepoint = 0

    def targets(
        self, resource: ResourceType, records: Sequence[Record]
    ) -> Iterator[tuple[str, set[int]]]:
        """Yield the type and the ids of what the links of some records lead to."""
        for tracked in self._links:
            if tracked.source is resource:
                keys = {record.get(tracked.link.foreign_key) for record in records}
                yield tracked.target.type, {key for key in keys if isinstance(key, int)}

    def savepoint(self) -> None:
        """Begin a request: `undo` removes what is added from now on."""
        self._savepoint = len(self._changes)

    async def add_request(self, author: str | None) -> None:
        """Add what the last request has changed; its net effect counts. Raises Unavailable."""
        before = self._records.before_request()
        for tracked in self._links:
            changed = list(_link_changes(tracked, before, self._records))
            if changed:
                count = sum(map(partial(_count_new, tracked), changed))
                ids = iter(await self._counters.allocate(tracked.periods.type, count))
                add = partial(self._add, tracked, changed, ids, author)
                await offload(add, size=len(changed))

    def undo(self) -> None:
        """Remove what was added since the savepoint."""
        del self._changes[self._savepoint :]

    async def take_changes(self) -> list[RecordChange]:
        """Return what has to be written to periods, once. Raises PyMongoError."""
        changes, self._changes, self._savepoint = self._changes, [], 0
        if not changes:
            return []
        for tracked in self._links:
            lacking = [
                one for one in changes if one.tracked is tracked and one.target_to_copy is not None
            ]
            if lacking:
                await self._read_copies(tracked, lacking)
        return await offload(partial(_merged_by_period, changes), size=len(changes))

    def _add(
        self,
        tracked: TrackedLink,
        changed: Iterable[_LinkChange],
        ids: Iterator[int],
        author: str | None,
    ) -> None:
        for change in changed:
            time = self._time_of(tracked, change)
            in_force = None
            if change.old_target_id is not None:
                self._changes.append(_ended(tracked, change, ids, time, author))
            if change.new_target_id is not None:
                in_force = next(ids)
                self._changes.append(_begun(tracked, change, in_force, time, author))
            if change.after:
                fields = {tracked.link.period_field: in_force, tracked.link.changed_field: time}
                self._records.replace(change.key, change.after | fields)

    def _time_of(self, tracked: TrackedLink, change: _LinkChange) -> datetime.datetime:
        """Return the time of a change: later than that of the last one, whatever the clock says."""
        last = change.before.get(tracked.link.changed_field)
        return max(self._time, last + STEP) if last else self._time

    async def _read_copies(self, tracked: TrackedLink, changes: Sequence[_PeriodChange]) -> None:
        """Add the attributes of targets that are not among the records."""
        ids = {one.target_to_copy for one in changes if one.target_to_copy is not None}
        values = await read_target_copies(self._transaction, tracked, ids)
        for change in changes:
            change.fields.update(values.get(change.target_to_copy, {}))


def _begun(
    tracked: TrackedLink,
    change: _LinkChange,
    id_: int,
    time: datetime.datetime,
    author: str | None,
) -> _PeriodChange:
    """Return the beginning of the period of the new target. id_: of the period."""
    fields = new_period(tracked, id_, change.key[1], change.new_target_id, time)
    if author is not None:
        fields[CREATED_BY] = author
    return _PeriodChange(tracked, fields, is_new=True)


def _ended(
    tracked: TrackedLink,
    change: _LinkChange,
    ids: Iterator[int],
    time: datetime.datetime,
    author: str | None,
) -> _PeriodChange:
    """Return the end of the period of the old target. ids: new ones, for one not yet stored."""
    fields: Record = {UNTIL: time}
    if author is not None:
        fields[UPDATED_BY] = author
    fields |= copied_values(tracked, tracked.source_key, change.before)
    fields |= copied_values(tracked, tracked.target_key, change.old_target)
    id_ = change.before.get(tracked.link.period_field)
    if is_new := id_ is None:  # the link is older than its history
        id_ = next(ids)
        begun = new_period(tracked, id_, change.key[1], change.old_target_id, BEGINNING)
        fields = begun | fields
    to_copy = None if change.old_target else change.old_target_id
    return _PeriodChange(tracked, fields | {ID: id_}, is_new, to_copy)


@asynccontextmanager
async def open_link_periods(
    database: Database, graph: Graph, link: TrackedLink
) -> AsyncIterator[LinkPeriods]:
    """Yield the periods of a link outside of a service."""
    async with AsyncExitStack() as stack:
        commands = ReadCommands(database)
        stack.push_async_callback(commands.close)
        transactions = Transactions(database, commands)
        stack.push_async_callback(transactions.close)
        counters = Counters(database, graph)
        stack.push_async_callback(counters.close)
        yield LinkPeriods(database, transactions, counters.allocate, link)


def _link_changes(
    tracked: TrackedLink, before: Mapping[RecordKey, Record | None], records: IdentityMap
) -> Iterator[_LinkChange]:
    foreign_key = tracked.link.foreign_key
    for key, earlier in before.items():
        if key[0] == tracked.source.type:
            after = records.get(key) or {}
            old_target_id, new_target_id = (earlier or {}).get(foreign_key), after.get(foreign_key)
            if old_target_id != new_target_id:
                target_key = tracked.target.type, old_target_id
                old_target = before.get(target_key) or records.get(target_key)
                yield _LinkChange(
                    key, earlier or {}, after, old_target_id, new_target_id, old_target
                )


def _count_new(tracked: TrackedLink, change: _LinkChange) -> int:
    """Return how many periods have to be inserted."""
    is_older = change.before.get(tracked.link.period_field) is None  # than the history
    return (change.old_target_id is not None and is_older) + (change.new_target_id is not None)


def _merged_by_period(changes: Iterable[_PeriodChange]) -> list[RecordChange]:
    """Return the changes of periods; what ends in the unit that began it is inserted as it ends."""
    new: dict[RecordKey, Record] = {}
    stored: dict[RecordKey, Record] = defaultdict(dict)
    for one in changes:
        key = one.tracked.periods.type, one.fields[ID]
        if one.is_new:
            new[key] = one.fields
        else:
            (new if key in new else stored)[key].update(one.fields)
    inserted = [RecordChange(key, None, fields) for key, fields in new.items()]
    return inserted + [RecordChange(key, {ID: key[1]}, one) for key, one in stored.items()]
