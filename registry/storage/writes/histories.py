"""What histories keep of the changes of a request: ordinary records, stored in its transaction.

A period lasts from one change of a link to the next:

- The record with the link points at the period in force, and has the time of its last change.
- `since` and `until` are null before records began, and while a period lasts.
- What a period copies from both ends is stored when it ends.

A revision has what a request has changed of a resource.
"""

import datetime
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import CREATED_BY, SINCE, UNTIL, UPDATED_BY
from registry.model.record import ID, Record
from registry.model.resource_type import Link, ResourceType
from registry.model.revisions import (
    ACTION,
    AFTER,
    AT,
    AUTHOR,
    BEFORE,
    CREATED,
    DELETED,
    REVISION,
    UPDATED,
)
from registry.storage.records import is_same
from registry.storage.writes.identity_map import IdentityMap, RecordKey

_STEP = datetime.timedelta(milliseconds=1)
"""The shortest period: the times of one link increase even if the clock does not."""


def add_history(records: IdentityMap, graph: Graph, time: str, *, changes_links: bool) -> None:
    """Add the periods and revisions of what the current request has changed; its net effect counts.

    records: of the unit of work, with the targets that links had. time: of the changes, as stored.
    changes_links: whether the request may have changed links.
    """
    at, before = datetime.datetime.fromisoformat(time), dict(records.before_request)
    for tracked in tracked_links(graph) if changes_links else ():
        field = tracked.link.foreign_key
        for key, record in before.items():
            if key[0] == tracked.source.type:
                source, after = record or {}, records.get(key) or {}
                if source.get(field) != after.get(field):
                    _change(records, tracked, source, after, before, at)
    if graph.revisions:
        keys = {link.target: link.foreign_key for link in graph[REVISION].links}
        for (type_name, id_), record in before.items():
            if type_name in keys:
                after = records.get((type_name, id_)) or {}
                _revise(records, graph[type_name], keys[type_name], record or {}, after, at)


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


def _revise(
    records: IdentityMap,
    resource: ResourceType,
    subject_key: str,
    before: Record,
    after: Record,
    now: datetime.datetime,
) -> None:
    """Add the revision of a resource, if what clients see of it has changed.

    subject_key: the foreign key of revisions of its type. before, after: as for `_change`.
    """
    if not (names := _differing(resource, before, after)):
        return
    revision: Record = {
        ID: records.new_ids.take(REVISION),
        AT: now,
        ACTION: UPDATED if before and after else CREATED if after else DELETED,
        BEFORE: _values(resource, names, before),
        AFTER: _values(resource, names, after),
        subject_key: (after or before)[ID],
    }
    if records.author is not None:
        revision[AUTHOR] = records.author
    records.put((REVISION, revision[ID]), revision)


@lru_cache(maxsize=64)
def _compared(resource: ResourceType) -> Mapping[str, Link | None]:
    """Return the stored fields of what revisions show, with the link of foreign keys."""
    attributes = (name for name, each in resource.attributes.items() if not each.is_computed)
    return {**dict.fromkeys(attributes), **{link.foreign_key: link for link in resource.links}}


def _differing(resource: ResourceType, before: Record, after: Record) -> list[str]:
    """Return the stored fields with different values; all of a resource that is created."""
    return [
        name
        for name in _compared(resource)
        if before.get(name) is not after.get(name)
        and not is_same(before.get(name), after.get(name))
    ]


def _values(resource: ResourceType, names: Iterable[str], record: Record) -> dict[str, Any]:
    """Return the values of stored fields in JSON, by the names that clients know; none is null."""
    values: dict[str, Any] = {}
    for name in names:
        link, value = _compared(resource)[name], record.get(name)
        if value is None:
            continue
        if link:
            values[link.name] = {"type": link.target, "id": str(value)}
        else:
            values[name] = resource.json_value(name, record)
    return values
