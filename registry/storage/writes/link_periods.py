"""The periods of links: ordinary records, begun and ended by the changes of links.

- The record with the link points at the period in force, and has the time of its last change.
- `since` and `until` are null before records began, and while a period lasts.
- What a period copies from both ends is stored when it ends.
"""

import datetime
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import CREATED_BY, SINCE, UNTIL, UPDATED_BY
from registry.model.record import ID, Record
from registry.offloading import offload
from registry.storage.counters import NewIds
from registry.storage.writes.identity_map import IdentityMap, RecordKey

_STEP = datetime.timedelta(milliseconds=1)
"""The shortest period: the times of one link increase even if the clock does not."""


async def add_periods(records: IdentityMap, graph: Graph, new_ids: NewIds, time: str) -> None:
    """Add the periods of the links that a request has changed; its net effect counts.

    records: of the unit of work, with the targets that links had. time: of the changes, as stored.
    """
    at, before = datetime.datetime.fromisoformat(time), dict(records.before_request)
    for tracked in tracked_links(graph):
        type_name, field = tracked.source.type, tracked.link.foreign_key
        changed = [
            key
            for key, record in before.items()
            if key[0] == type_name
            and (record or {}).get(field) != (records.get(key) or {}).get(field)
        ]
        if changed:
            add = partial(_add, records, tracked, changed, before, new_ids, at)
            await offload(add, size=len(changed))


def _add(
    records: IdentityMap,
    tracked: TrackedLink,
    keys: Sequence[RecordKey],
    before: Mapping[RecordKey, Record | None],
    new_ids: NewIds,
    now: datetime.datetime,
) -> None:
    """Add the periods of one kind of links. before: what the request has changed."""
    link, periods = tracked.link, tracked.periods
    for key in keys:
        source, after, in_force = before[key] or {}, records.get(key) or {}, None
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
            in_force = new_ids.take(periods.type)
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
            records.put(key, after | fields)


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
