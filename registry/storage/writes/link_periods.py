"""Rules for the periods of a link, and the transactions that repair them.

A link that is older than its history, or that another program has changed, has no period; what
another program has changed may have periods that overlap, or that last without the link.
"""

import datetime
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.graph import Graph, TrackedLink
from registry.model.implicit_attributes import BEGINNING, LASTING, SINCE, UNTIL, current_time
from registry.model.record import ID, Record
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.transactions import Transaction, Transactions
from registry.storage.records import fields_of, id_condition, is_valid, projection
from registry.storage.schema import id_batches
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.identity_map import RecordChange, store

STEP = datetime.timedelta(milliseconds=1)
"""The shortest period. So the times of one link increase, even if those of the clock do not."""

_BATCH_SIZE = 200
"""Links per transaction, which holds up requests that change them."""

_ALL_INSERTED = "complete"
"""The field of the counter of periods which says that all links that are older have one."""

HAS_BOUNDS = {SINCE: {"$type": "date"}, UNTIL: {"$type": "date"}}
"""The query for periods whose times can be compared."""


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
            result.ends[last[ID]] = max(now, last[SINCE] + STEP)
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

    def __init__(
        self, database: Database, transactions: Transactions, counters: Counters, link: TrackedLink
    ) -> None:
        self._database = database
        self._transactions = transactions
        self._counters = counters
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
        """Make the periods of some records right, as they are now."""
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
        missing = sum(one.missing_since is not None for one in wrong.values())
        new = iter(await self._counters.allocate(link.periods.type, missing))
        targets = {
            one.get(link.target_key)
            for id_, correct in wrong.items()
            for one in periods[id_]
            if one[ID] in correct.ends
        }
        copies_of = await self._read_target_copies(transaction, targets)
        of_periods, of_records = list[RecordChange](), list[RecordChange]()
        for id_, correct in wrong.items():
            record, in_force = records.get(id_), correct.in_force
            for one in periods[id_]:
                if one[ID] in correct.ends:
                    copies = copies_of.get(one.get(link.target_key), {})
                    after = self._ended(one, correct.ends[one[ID]], record, copies)
                    of_periods.append(RecordChange((link.periods.type, one[ID]), one, after))
            if record and correct.missing_since:
                in_force, target = next(new), record[link.link.foreign_key]
                begun = new_period(link, in_force, id_, target, correct.missing_since)
                of_periods.append(RecordChange((link.periods.type, in_force), None, begun))
            if record:
                after = record | _tracking_fields(link, record, in_force, correct.last_bound)
                of_records.append(RecordChange((link.source.type, id_), record, after))
        await store(transaction, link.periods, of_periods)
        await store(transaction, link.source, of_records)

    def _ended(
        self, period: Record, end: datetime.datetime | None, source: Record | None, copies: Record
    ) -> Record | None:
        """Return a period that ends, None if it has no end. copies: from the target."""
        if end is None:
            return None
        if period[UNTIL] == LASTING:
            copies = copied_values(self._link, self._link.source_key, source) | copies
            return period | {UNTIL: end} | copies
        return period | {UNTIL: end}

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
            one[ID]: copied_values(link, link.target_key, one)
            for one in found
            if is_valid(link.target, one, fields)
        }


@asynccontextmanager
async def open_link_periods(
    database: Database, graph: Graph, link: TrackedLink
) -> AsyncIterator[LinkPeriods]:
    """Yield the periods of a link outside of a service."""
    async with AsyncExitStack() as stack:
        transactions = Transactions(database)
        stack.push_async_callback(transactions.close)
        counters = Counters(database, graph)
        stack.push_async_callback(counters.close)
        yield LinkPeriods(database, transactions, counters, link)


def _tracking_fields(
    link: TrackedLink, record: Record, in_force: int | None, last_bound: datetime.datetime | None
) -> Record:
    """Return the fields of the record that stores a link: its next change is later than all."""
    fields: Record = {link.link.period_field: in_force}
    stored = record.get(link.link.changed_field)
    if last_bound and not (isinstance(stored, datetime.datetime) and stored > last_bound):
        fields[link.link.changed_field] = last_bound
    return fields


async def is_history_complete(
    database: Database, link: TrackedLink, session: AsyncIOMotorClientSession | None = None
) -> bool:
    """Whether all links that are older than their history have a period. Raises PyMongoError."""
    done = {ID: link.periods.type, _ALL_INSERTED: True}
    return bool(await database.counters.find_one(done, session=session))


def new_period(
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


def copied_values(link: TrackedLink, end: str, record: Record | None) -> Record:
    """Return what a period copies from the record at one of its ends, a relationship of it."""
    if not record:
        return {}
    resource = link.source if end == link.source_key else link.target
    copies = link.periods.copies.items()
    return {name: resource.json_value(one.source, record) for name, one in copies if one.end == end}
