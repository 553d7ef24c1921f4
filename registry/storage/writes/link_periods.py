"""The periods of links, begun and ended by changes."""

import datetime
from collections.abc import Mapping, Sequence
from functools import partial

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import (
    BEGINNING,
    CREATED_BY,
    LASTING,
    SINCE,
    UNTIL,
    UPDATED_BY,
)
from registry.model.record import ID, Record
from registry.offloading import offload
from registry.storage.writes.identity_map import IdentityMap, RecordKey
from registry.storage.writes.new_ids import NewIds

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
