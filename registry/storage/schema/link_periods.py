"""Rules for the periods of a link, and the transactions that repair them.

A link that is older than its history, or that another program has changed, has no period; what
another program has changed may have periods that overlap, or that last without the link.
"""

import datetime
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClientSession

from registry.model.authorship import current_time
from registry.model.history import TrackedLink
from registry.model.period import BEGINNING, LASTING, SINCE, UNTIL
from registry.model.record import ID, Record
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.transactions import Transaction, Transactions
from registry.storage.records import fields_of, id_condition, is_valid, projection

Allocate: TypeAlias = Callable[[str, int], Awaitable[list[int]]]
"""Returns so many new ids of a type."""

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

    reasons: what is wrong. changed: fields to set in periods, by the id of the period. removed: ids
    of periods to delete. missing_since: when the period begins that has to be inserted, None if
    none has. in_force: the id of the period in force, None if there is none, or if it has to be
    inserted. last_bound: the last time at which a period begins or ends, None if that is unknown.
    """

    reasons: list[str] = field(default_factory=list)
    changed: dict[int, Record] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)
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
            result.changed[last[ID]] = {UNTIL: max(now, last[SINCE] + STEP)}
    if last:
        ended = result.changed.get(last[ID], last)[UNTIL]
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
            if one[SINCE] == following[SINCE]:
                result.removed.append(one[ID])
            else:
                result.changed[one[ID]] = {UNTIL: following[SINCE]}


class LinkPeriods:
    """The periods of one kind of links. The methods raise PyMongoError or Unavailable."""

    def __init__(
        self, database: Database, transactions: Transactions, allocate: Allocate, link: TrackedLink
    ) -> None:
        self._database = database
        self._transactions = transactions
        self._allocate = allocate
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
        records = self._database[link.source.collection]
        cursor = records.find(query, {ID: True}, batch_size=_BATCH_SIZE)
        while found := await cursor.to_list(_BATCH_SIZE):
            await self.repair([record[ID] for record in found])
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
        await self._correct(transaction, wrong, records, periods)

    async def _correct(
        self,
        transaction: Transaction,
        corrections: Mapping[int, Correction],
        records: Mapping[int, Record],
        periods: Mapping[int, Sequence[Record]],
    ) -> None:
        link, foreign_key = self._link, self._link.link.foreign_key
        missing = [id_ for id_, one in corrections.items() if one.missing_since is not None]
        in_force: dict[int, Any] = {id_: one.in_force for id_, one in corrections.items()}
        new = await self._allocate(link.periods.type, len(missing)) if missing else []
        in_force |= zip(missing, new, strict=True)
        begun = [
            new_period(link, in_force[id_], id_, records[id_][foreign_key], since)
            for id_, one in corrections.items()
            if (since := one.missing_since)
        ]
        await transaction.insert(link.periods.collection, begun)
        ended = await self._ended(transaction, corrections, records, periods)
        if ended:
            await transaction.update(link.periods.collection, ended)
        if removed := [number for one in corrections.values() for number in one.removed]:
            statement = {"q": {ID: id_condition(removed)}, "limit": 0}
            await transaction.delete(link.periods.collection, [statement])
        updates = [
            {"q": {ID: id_}, "u": _tracking_update(link, in_force[id_], one.last_bound)}
            for id_, one in corrections.items()
            if id_ in records
        ]
        if updates:
            await transaction.update(link.source.collection, updates)

    async def _ended(
        self,
        transaction: Transaction,
        corrections: Mapping[int, Correction],
        records: Mapping[int, Record],
        periods: Mapping[int, Sequence[Record]],
    ) -> list[dict[str, Any]]:
        """Return the statements that end periods, with what these copy then."""
        link = self._link
        ended = [
            (records.get(id_), one, fields)
            for id_, correct in corrections.items()
            for one in periods[id_]
            if (fields := correct.changed.get(one[ID]))
        ]
        if not ended:
            return []
        ids = {one[link.target_key] for _, one, _ in ended if link.target_key in one}
        copies_of = await read_target_copies(transaction, link, ids)
        statements = []
        for record, one, fields in ended:
            copies: Record = {}
            if one[UNTIL] == LASTING:
                copies |= copied_values(link, link.source_key, record)
                copies |= copies_of.get(one.get(link.target_key), {})
            statements.append({"q": {ID: one[ID]}, "u": {"$set": fields | copies}})
        return statements


def _tracking_update(
    link: TrackedLink, in_force: int | None, last_bound: datetime.datetime | None
) -> Record:
    """Return the update of the record that stores a link: its next change is later than all."""
    update: Record = {"$set": {link.link.period_field: in_force}}
    if last_bound:
        update["$max"] = {link.link.changed_field: last_bound}
    return update


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


async def read_target_copies(
    transaction: Transaction, link: TrackedLink, ids: Collection[Any]
) -> dict[Any, Record]:
    """Return what periods copy from targets, by their ids; nothing of those that are invalid.

    Raises PyMongoError.
    """
    if not ids:
        return {}
    names = frozenset(one.source for one in link.periods.copies.values())
    fields = fields_of(link.target, names)
    found = await transaction.find(
        link.target.collection, {ID: id_condition(list(ids))}, projection(fields)
    )
    return {
        one[ID]: copied_values(link, link.target_key, one)
        for one in found
        if is_valid(link.target, one, fields)
    }


def copied_values(link: TrackedLink, end: str, record: Record | None) -> Record:
    """Return what a period copies from the record at one of its ends, a relationship of it."""
    if not record:
        return {}
    resource = link.source if end == link.source_key else link.target
    copies = link.periods.copies.items()
    return {name: resource.json_value(one.source, record) for name, one in copies if one.end == end}
