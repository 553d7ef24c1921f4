"""The periods of links: ordinary records, begun and ended by the changes of links.

- The record with the link points at the period in force, and has the time of its last change.
- `since` and `until` are null before records began, and while a period lasts.
- What a period copies from both ends is stored when it ends.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import CREATED_BY, SINCE, UNTIL, UPDATED_BY
from registry.model.record import ID, Record
from registry.storage.writes.identity_map import IdentityMap, RecordKey

_STEP = datetime.timedelta(milliseconds=1)
"""The shortest period: the times of one link increase even if the clock does not."""


def add_periods(records: IdentityMap, graph: Graph, time: str) -> None:
    """Add the periods of the links that a request has changed; its net effect counts.

    records: of the unit of work, with the targets that links had. time: of the changes, as stored.
    """
    at, before = datetime.datetime.fromisoformat(time), dict(records.before_request)
    for tracked in tracked_links(graph):
        field = tracked.link.foreign_key
        for key, record in before.items():
            if key[0] == tracked.source.type:
                source, after = record or {}, records.get(key) or {}
                if source.get(field) != after.get(field):
                    _change(records, tracked, source, after, before, at)


def _change(
    records: IdentityMap,
    tracked: TrackedLink,
    source: Record,
    after: Record,
    before: Mapping[RecordKey, Record | None],
    now: datetime.datetime,
) -> None:
    """End the period of a link, and begin another one.

    source, after: the record with the link, before and after the request; empty if there is none.
    before: what the request has changed.
    """
    link, periods, in_force = tracked.link, tracked.periods, None
    # Later than the last change, whatever the clock says.
    last = source.get(link.changed_field)
    time = max(now, last + _STEP) if last else now
    if (period_id := source.get(link.period_field)) is not None:
        period_key = periods.type, period_id
        if records.get(period_key) is None:  # its stored form is not needed
            records.add(periods.type, [{ID: period_id}])
        ended = {**(records[period_key] or {}), UNTIL: time}
        if records.author is not None:
            ended[UPDATED_BY] = records.author
        target_key = tracked.target.type, source[link.foreign_key]
        target = before.get(target_key) or records.get(target_key)
        records.put(period_key, ended | _copies(tracked, source, target))
    if after.get(link.foreign_key) is not None:
        in_force = records.new_ids.take(periods.type)
        period: Record = {
            ID: in_force,
            SINCE: time,
            UNTIL: None,
            tracked.source_key: after[ID],
            tracked.target_key: after[link.foreign_key],
        }
        if records.author is not None:
            period[CREATED_BY] = records.author
        records.put((periods.type, in_force), period)
    if after:
        fields = {link.period_field: in_force, link.changed_field: time}
        records.put((tracked.source.type, after[ID]), after | fields)


def _copies(tracked: TrackedLink, source: Record, target: Record | None) -> dict[str, Any]:
    """Return what a period that ends copies from both ends of the link, as they were before."""
    ends = {
        tracked.source_key: (tracked.source, source),
        tracked.target_key: (tracked.target, target),
    }
    copies: dict[str, Any] = {}
    for name, copy in tracked.periods.copies.items():
        resource, record = ends[copy.end]
        if record:
            copies[name] = resource.json_value(copy.source, record)
    return copies
