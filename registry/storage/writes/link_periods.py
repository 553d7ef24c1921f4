"""The periods of links: ordinary records, begun and ended by the changes of links.

- The record with the link points at the period in force, and has the time of its last change.
- `since` and `until` are null before records began, and while a period lasts.
- What a period copies from both ends is stored when it ends.
"""

import datetime
from collections.abc import Mapping, Sequence
from functools import partial

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import CREATED_BY, SINCE, UNTIL, UPDATED_BY
from registry.model.record import ID, Record
from registry.offloading import offload
from registry.storage.writes.identity_map import IdentityMap, RecordKey
from registry.storage.writes.new_ids import NewIds

_STEP = datetime.timedelta(milliseconds=1)
"""The shortest period: the times of one link increase even if the clock does not."""


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
        changed = [(link, keys) for link in self._links if (keys := self._changed_links(link))]
        before = dict(self._records.before_request()) if changed else {}
        for tracked, keys in changed:
            await offload(partial(self._add, tracked, keys, before, author), size=len(keys))

    def _changed_links(self, tracked: TrackedLink) -> list[RecordKey]:
        """Return the records whose link has another target than before the request."""
        type_name, field = tracked.source.type, tracked.link.foreign_key
        return [
            key
            for key, record in self._records.before_request().items()
            if key[0] == type_name
            and (record or {}).get(field) != (self._records.get(key) or {}).get(field)
        ]

    def _add(
        self,
        tracked: TrackedLink,
        keys: Sequence[RecordKey],
        before: Mapping[RecordKey, Record | None],
        author: str | None,
    ) -> None:
        """Add the periods of one kind of links. before: what the request has changed."""
        link = tracked.link
        for key in keys:
            source, after, in_force = before[key] or {}, self._records.get(key) or {}, None
            # Later than the last change, whatever the clock says.
            last = source.get(link.changed_field)
            time = max(self._time, last + _STEP) if last else self._time
            if source.get(link.period_field) is not None:
                self._end(tracked, before, source, time, author)
            if after.get(link.foreign_key) is not None:
                in_force = self._begin(tracked, after, time, author)
            if after:
                fields = {link.period_field: in_force, link.changed_field: time}
                self._records.replace(key, after | fields)

    def _begin(
        self, tracked: TrackedLink, source: Record, time: datetime.datetime, author: str | None
    ) -> int:
        """Add a period in force; return its id."""
        id_ = self._new_ids.take(tracked.periods.type)
        period: Record = {
            ID: id_,
            SINCE: time,
            UNTIL: None,
            tracked.source_key: source[ID],
            tracked.target_key: source[tracked.link.foreign_key],
        }
        if author is not None:
            period[CREATED_BY] = author
        self._records.replace((tracked.periods.type, id_), period)
        return id_

    def _end(
        self,
        tracked: TrackedLink,
        before: Mapping[RecordKey, Record | None],
        source: Record,
        time: datetime.datetime,
        author: str | None,
    ) -> None:
        """End the period in force. source: the record with the link, before the request."""
        key = tracked.periods.type, source[tracked.link.period_field]
        if self._records.get(key) is None:  # its stored form is not needed
            self._records.load(tracked.periods.type, [{ID: key[1]}])
        target_key = tracked.target.type, source[tracked.link.foreign_key]
        target = before.get(target_key) or self._records.get(target_key)
        period = {**(self._records.get(key) or {}), UNTIL: time}
        if author is not None:
            period[UPDATED_BY] = author
        ends = {
            tracked.source_key: (tracked.source, source),
            tracked.target_key: (tracked.target, target),
        }
        for name, copy in tracked.periods.copies.items():
            resource, record = ends[copy.end]
            if record:
                period[name] = resource.json_value(copy.source, record)
        self._records.replace(key, period)
