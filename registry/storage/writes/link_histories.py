"""Histories of links: the periods that begin and end with the changes of a unit of work."""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from registry.model.graph import Graph, TrackedLink, tracked_links
from registry.model.implicit_attributes import BEGINNING, CREATED_BY, UNTIL, UPDATED_BY
from registry.model.record import ID, Record
from registry.offloading import offload
from registry.storage.writes.id_allocation import Counters
from registry.storage.writes.identity_map import IdentityMap, RecordKey
from registry.storage.writes.link_periods import STEP, copied_values, new_period


@dataclass(frozen=True, slots=True)
class _LinkChange:
    """A change of a link by one request.

    before, after: the record that stores it, {} if there is none. old_target: the record of the
    target that it had, before the request; None if it does not exist or is not valid.
    """

    key: RecordKey
    before: Record
    after: Record
    old_target_id: int | None
    new_target_id: int | None
    old_target: Record | None


class LinkHistories:
    """Adds the periods of the links that a unit of work changes to its records.

    records: those of the unit, with the targets that links had. time: of the changes, as stored.
    """

    def __init__(self, graph: Graph, counters: Counters, records: IdentityMap, time: str) -> None:
        self._links = list(tracked_links(graph))
        self._counters = counters
        self._records = records
        self._time = datetime.datetime.fromisoformat(time)

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

    def _add(
        self,
        tracked: TrackedLink,
        changed: Iterable[_LinkChange],
        ids: Iterator[int],
        author: str | None,
    ) -> None:
        """Add the periods of changes. ids: of those that are new."""
        for change in changed:
            last, in_force = change.before.get(tracked.link.changed_field), None
            # Later than the last change, whatever the clock says.
            time = max(self._time, last + STEP) if last else self._time
            if change.old_target_id is not None:
                self._end(tracked, change, ids, {UNTIL: time, **_by(UPDATED_BY, author)})
            if change.new_target_id is not None:
                in_force = next(ids)
                begun = new_period(tracked, in_force, change.key[1], change.new_target_id, time)
                period = begun | _by(CREATED_BY, author)
                self._records.replace((tracked.periods.type, in_force), period)
            if change.after:
                fields = {tracked.link.period_field: in_force, tracked.link.changed_field: time}
                self._records.replace(change.key, change.after | fields)

    def _end(
        self, tracked: TrackedLink, change: _LinkChange, ids: Iterator[int], fields: Record
    ) -> None:
        """End the period of the old target. fields: what is stored of the end."""
        type_name, id_ = tracked.periods.type, change.before.get(tracked.link.period_field)
        if id_ is None:  # the link is older than its history
            id_ = next(ids)
            period = new_period(tracked, id_, change.key[1], change.old_target_id, BEGINNING)
        else:
            if self._records.get((type_name, id_)) is None:  # what it has stored is not needed
                self._records.load(type_name, [{ID: id_}])
            period = self._records.get((type_name, id_)) or {}
        copies = copied_values(tracked, tracked.source_key, change.before)
        copies |= copied_values(tracked, tracked.target_key, change.old_target)
        self._records.replace((type_name, id_), period | fields | copies)


def _by(field: str, author: str | None) -> Record:
    return {} if author is None else {field: author}


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
