"""The periods of links: begun and ended by changes, inserted for older links, and repaired.

A link that is older than its history, or that another program has set, has no period. Changes by
other programs may also leave periods that overlap, or that last without the link.
"""

import datetime
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import (
    BEGINNING,
    CREATED_BY,
    LASTING,
    SINCE,
    UNTIL,
    UPDATED_BY,
    current_time,
)
from registry.model.record import ID, Record
from registry.offloading import offload
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.transactions import Transaction, Transactions
from registry.storage.records import fields_of, id_condition, is_valid, projection
from registry.storage.schema import id_batches
from registry.storage.writes.identity_map import IdentityMap, RecordChange, RecordKey, store
from registry.storage.writes.new_ids import LastIds, NewIds

_STEP = datetime.timedelta(milliseconds=1)
"""The shortest period: the times of one link increase even if the clock does not."""

_BATCH_SIZE = 200
"""Links per transaction, which holds up requests that change them."""

_ALL_INSERTED = "complete"
"""The field of the counter of periods that says that every older link has one."""

HAS_BOUNDS = {SINCE: {"$type": "date"}, UNTIL: {"$type": "date"}}
"""The query for periods whose times can be compared."""


class LinkHistories:
    """Adds the periods of the links that a unit of work changes to its records.

    records: of the unit, with the targets that links had. time: of the changes, as stored.
    """

    def __init__(self, graph: Graph, new_ids: NewIds, records: IdentityMap, time: str) -> None:
        self._links = list(tracked_links(graph))
        self._new_ids = new_ids
        self._records = records
        self._time = datetime.datetime.fromisoformat(time)

    async def add_request(self, author: str | None) -> None:
        """Add what the last request has changed; its net effect counts."""
        before = dict(self._records.before_request())
        for tracked in self._links:
            changed = [
                (key, one or {}, after)
                for key, one in before.items()
                if key[0] == tracked.source.type
                and _target_id(tracked, one)
                != _target_id(tracked, after := self._records.get(key) or {})
            ]
            if changed:
                add = partial(self._add, tracked, before, changed, author)
                await offload(add, size=len(changed))

    def _add(
        self,
        tracked: TrackedLink,
        before: Mapping[RecordKey, Record | None],
        changed: Sequence[tuple[RecordKey, Record, Record]],
        author: str | None,
    ) -> None:
        """Add the periods of changes. before: the request."""
        for key, source, after in changed:
            last, in_force = source.get(tracked.link.changed_field), None
            # Later than the last change, whatever the clock says.
            time = max(self._time, last + _STEP) if last else self._time
            old_id, new_id = _target_id(tracked, source), _target_id(tracked, after)
            if old_id is not None:
                period_id = _period_id(tracked, source)
                if period_id is None:  # the link is older than its history
                    period_id = self._new_ids.take(tracked.periods.type)
                    period = _new_period(tracked, period_id, key[1], old_id, BEGINNING)
                else:
                    period_key = tracked.periods.type, period_id
                    if self._records.get(period_key) is None:  # its stored form is not needed
                        self._records.load(tracked.periods.type, [{ID: period_id}])
                    period = self._records.get(period_key) or {}
                target_key = tracked.target.type, old_id
                target = before.get(target_key) or self._records.get(target_key)
                period = period | {UNTIL: time} | _by(UPDATED_BY, author)
                period |= _copied_values(tracked, tracked.source_key, source)
                period |= _copied_values(tracked, tracked.target_key, target)
                self._records.replace((tracked.periods.type, period_id), period)
            if new_id is not None:
                in_force = self._new_ids.take(tracked.periods.type)
                begun = _new_period(tracked, in_force, key[1], new_id, time)
                begun |= _by(CREATED_BY, author)
                self._records.replace((tracked.periods.type, in_force), begun)
            if after:
                fields = {tracked.link.period_field: in_force, tracked.link.changed_field: time}
                self._records.replace(key, after | fields)


def _target_id(tracked: TrackedLink, source: Record | None) -> int | None:
    return (source or {}).get(tracked.link.foreign_key)


def _period_id(tracked: TrackedLink, source: Record) -> int | None:
    return source.get(tracked.link.period_field)


def _by(field_name: str, author: str | None) -> Record:
    return {} if author is None else {field_name: author}


@dataclass(slots=True)
class Correction:
    """The changes that repair the periods of one link.

    reasons: what is wrong. ends: when periods have to end, by id; None if they are to be removed.
    missing_since: when the period begins that has to be inserted, None if none has. in_force: the
    id of the period in force, None if there is none, or if it has to be inserted. last_bound: the
    last time at which a period begins or ends, None if that is unknown.
    """

    reasons: list[str] = field(default_factory=list)
    ends: dict[int, datetime.datetime | None] = field(default_factory=dict)
    missing_since: datetime.datetime | None = None
    in_force: int | None = None
    last_bound: datetime.datetime | None = None


def correction(
    tracked: TrackedLink, record: Record, periods: Sequence[Record], now: datetime.datetime
) -> Correction:
    """Return what is wrong with the periods of a link.

    record: that stores the link; empty if it was deleted. periods: all of the link that HAS_BOUNDS
    selects.
    """
    name, result = tracked.periods.type, Correction()
    target = record.get(tracked.link.foreign_key)
    ordered = sorted(periods, key=lambda one: (one[SINCE], one[ID]))
    _end_overlapping(name, ordered, result)
    last = ordered[-1] if ordered else None
    if last and last[UNTIL] == LASTING:
        if target is not None and last.get(tracked.target_key) == target:
            result.in_force = last[ID]
        else:
            result.reasons.append(f"{name} {last[ID]} is in force without a link")
            result.ends[last[ID]] = max(now, last[SINCE] + _STEP)
    if last:
        ended = result.ends.get(last[ID], last[UNTIL])
        result.last_bound = ended if result.in_force is None else last[SINCE]
    if isinstance(target, int) and result.in_force is None:
        result.reasons.append(f"{tracked.link.name} has no {name}")
        if result.last_bound:
            result.missing_since = result.last_bound = max(now, result.last_bound)
        else:  # nobody knows when it began
            result.missing_since = BEGINNING
    field_name = tracked.link.period_field
    stored = record.get(field_name)
    if not result.reasons and stored != result.in_force:
        result.reasons.append(f"{field_name} is {stored!r:.40} instead of {result.in_force}")
    return result


def _end_overlapping(name: str, periods: Sequence[Record], result: Correction) -> None:
    """End each period when the next one begins. name: of their type. periods: by beginning."""
    for one, following in pairwise(periods):
        if one[UNTIL] > following[SINCE]:
            result.reasons.append(f"{name} {one[ID]} overlaps {following[ID]}")
            is_empty = one[SINCE] == following[SINCE]
            result.ends[one[ID]] = None if is_empty else following[SINCE]


class LinkPeriods:
    """The periods of one kind of links. The methods raise PyMongoError or Unavailable."""

    def __init__(self, database: Database, transactions: Transactions, link: TrackedLink) -> None:
        self._database = database
        self._transactions = transactions
        self._link = link

    async def insert_missing(self) -> None:
        """Insert the periods of links that are older than their history, unless that was done.

        It can be interrupted, and done by several processes at once: the period is inserted in a
        transaction that also writes the record with the link, so it conflicts with other changes.
        """
        link, counters = self._link, self._database.counters
        if await is_history_complete(self._database, link):
            return
        is_linked = {link.link.foreign_key: {"$type": ["int", "long"]}}
        query = {**is_linked, link.link.period_field: None}
        async for ids in id_batches(self._database[link.source.collection], query, _BATCH_SIZE):
            await self.repair(ids)
        await counters.update_one(
            {ID: link.periods.type}, {"$set": {_ALL_INSERTED: True}}, upsert=True
        )

    async def repair(self, ids: Sequence[int]) -> None:
        """Correct the periods of some records, as the links are now."""
        for start in range(0, len(ids), _BATCH_SIZE):
            await self._transactions.run(
                partial(self._repair, ids=ids[start : start + _BATCH_SIZE])
            )

    async def _repair(self, transaction: Transaction, ids: Sequence[int]) -> None:
        link, now = self._link, datetime.datetime.fromisoformat(current_time())
        found = await transaction.find(link.source.collection, {ID: id_condition(ids)})
        records = {record[ID]: record for record in found}
        periods: dict[int, list[Record]] = defaultdict(list)
        query = {link.source_key: id_condition(ids), **HAS_BOUNDS}
        for one in await transaction.find(link.periods.collection, query):
            periods[one[link.source_key]].append(one)
        corrections = {
            id_: correction(link, records.get(id_, {}), periods[id_], now) for id_ in ids
        }
        wrong = {id_: one for id_, one in corrections.items() if one.reasons}
        new_ids = NewIds(transaction, LastIds())
        await new_ids.load(holds=False)
        ending = [
            (id_, one, correct.ends[one[ID]])
            for id_, correct in wrong.items()
            for one in periods[id_]
            if one[ID] in correct.ends
        ]
        targets = {one.get(link.target_key) for _, one, _ in ending}
        copies_of = await self._read_target_copies(transaction, targets)
        of_periods, of_records = list[RecordChange](), list[RecordChange]()
        for id_, one, end in ending:
            after = None if end is None else one | {UNTIL: end}
            if after is not None and one[UNTIL] == LASTING:
                after |= _copied_values(link, link.source_key, records.get(id_))
                after |= copies_of.get(one.get(link.target_key), {})
            of_periods.append(RecordChange((link.periods.type, one[ID]), one, after))
        for id_, correct in wrong.items():
            record, in_force = records.get(id_), correct.in_force
            if record and correct.missing_since:
                in_force, target = new_ids.take(link.periods.type), _target_id(link, record)
                begun = _new_period(link, in_force, id_, target, correct.missing_since)
                of_periods.append(RecordChange((link.periods.type, in_force), None, begun))
            if record:
                fields: Record = {link.link.period_field: in_force}
                stored, bound = record.get(link.link.changed_field), correct.last_bound
                if bound and not (isinstance(stored, datetime.datetime) and stored > bound):
                    fields[link.link.changed_field] = bound  # the next change is later
                of_records.append(RecordChange((link.source.type, id_), record, record | fields))
        await new_ids.store(of_periods)
        await store(transaction, link.periods, of_periods)
        await store(transaction, link.source, of_records)

    async def _read_target_copies(
        self, transaction: Transaction, ids: Collection[Any]
    ) -> dict[Any, Record]:
        """Return what periods copy from targets, by their ids; nothing of invalid ones."""
        link = self._link
        names = frozenset(one.source for one in link.periods.copies.values())
        fields = fields_of(link.target, names)
        query = {ID: {"$in": list(ids)}}
        found = await transaction.find(link.target.collection, query, projection(fields))
        return {
            one[ID]: _copied_values(link, link.target_key, one)
            for one in found
            if is_valid(link.target, one, fields)
        }


@asynccontextmanager
async def open_link_periods(database: Database, link: TrackedLink) -> AsyncIterator[LinkPeriods]:
    """Yield the periods of a link outside of a service."""
    transactions = Transactions(database)
    try:
        yield LinkPeriods(database, transactions, link)
    finally:
        await transactions.close()


async def is_history_complete(
    database: Database, link: TrackedLink, session: AsyncIOMotorClientSession | None = None
) -> bool:
    """Whether all links that are older than their history have a period. Raises PyMongoError."""
    done = {ID: link.periods.type, _ALL_INSERTED: True}
    return bool(await database.counters.find_one(done, session=session))


def _new_period(
    link: TrackedLink, id_: int, source: object, target: int | None, since: datetime.datetime
) -> Record:
    """Return the record of a period in force."""
    return {
        ID: id_,
        SINCE: since,
        UNTIL: LASTING,
        link.source_key: source,
        link.target_key: target,
    }


def _copied_values(link: TrackedLink, end: str, record: Record | None) -> Record:
    """Return what a period copies from the record at one end. end: a relationship of the period."""
    if not record:
        return {}
    resource = link.source if end == link.source_key else link.target
    copies = link.periods.copies.items()
    return {name: resource.json_value(one.source, record) for name, one in copies if one.end == end}
