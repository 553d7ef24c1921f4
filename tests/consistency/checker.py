"""What a history of concurrent requests may show if every response is one point in time.

Real time is all that is known of the order of requests: one that has ended before another begins
precedes it. A check reports a violation only if no order of the others explains the response.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf
from typing import Any

from tests.consistency.history import LINKS, MARKERS, Call, Identity, identity_of


@dataclass(frozen=True)
class Rules:
    """What the writers of a history keep to.

    codes: the computers of a person whose `last_name` is `n-k`; the bits of k say which of them
    the person owns, and one request changes both. replaced: further persons whose links change
    only when all of them are replaced. groups: resources whose markers are equal, because one
    request changes all of them.
    """

    codes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    groups: Sequence[frozenset[Identity]] = ()

    def coded(self, person: Mapping[str, Any]) -> frozenset[str]:
        """Return the computers of a person according to the name."""
        code = int(person["attributes"]["last_name"].partition("-")[2])
        computers = self.codes[person["id"]]
        return frozenset(one for bit, one in enumerate(computers) if code >> bit & 1)


@dataclass(frozen=True)
class Violation:
    """A response that contradicts the others, or itself."""

    call: Call
    reason: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.call}"


def violations(history: Sequence[Call], rules: Rules) -> list[Violation]:
    """Return all violations of a history."""
    checks = (
        (Violation(call, reason) for call in history for reason in _in_document(call, rules)),
        _in_versions(history),
        _in_time(history),
        _in_replaced_linkage(history, rules),
        _in_conditions(history),
        _in_collections(history),
        _in_ids(history),
    )
    return [violation for check in checks for violation in check]


# One document


def _in_document(call: Call, rules: Rules) -> Iterator[str]:
    """Yield how a document contradicts itself or the request that it responds to."""
    if not call.succeeded or call.document is None:
        return
    yield from _full_linkage(call)
    yield from _both_sides(call)
    for one in call.resources:
        is_coded = one["type"] == "person" and one["id"] in rules.codes
        linked = call.linkages.get(identity_of(one))
        if is_coded and linked is not None and linked != rules.coded(one):
            yield "attributes and links of different times"
    for group in rules.groups:
        if len({_marker(one) for one in call.resources if identity_of(one) in group}) > 1:
            yield "resources of different times"
    yield from _written(call)
    meta, size = call.document.get("meta", {}), len(call.primary)
    if meta.get("count", size) != size:
        yield "`count` is not the number of resources"
    if "page[size]=1000" in call.url and meta.get("total", size) != size:
        yield "`total` and resources of different times"


def _full_linkage(call: Call) -> Iterator[str]:
    if "included" not in call.document:
        return
    primary = {identity_of(one) for one in call.primary}
    included = {identity_of(one) for one in call.document["included"]}
    other = {"person": "computer", "computer": "person"}
    linked = {(other[kind], id_) for (kind, _), ids in call.linkages.items() for id_ in ids}
    shown = included if call.is_linkage else included | primary
    if linked - shown:
        yield "`included` lacks a resource"
    if included - linked:
        yield "`included` has a resource that nothing is linked to"


def _both_sides(call: Call) -> Iterator[str]:
    owners: dict[str, str] = {}
    for (kind, person), computers in call.linkages.items():
        for computer in computers if kind == "person" else ():
            if owners.setdefault(computer, person) != person:
                yield "a computer with two owners"
    for (kind, id_), linked in call.linkages.items():
        if kind == "computer":
            owner = next(iter(linked), None)
            if owners.get(id_, owner) != owner:
                yield "the two sides of a link disagree"
            if owner and id_ not in call.linkages.get(("person", owner), {id_}):
                yield "the two sides of a link disagree"


def _written(call: Call) -> Iterator[str]:
    """Yield how the response to a write differs from what was sent."""
    if call.method == "GET" or not call.primary or "data" not in call.document:
        return
    (shown,) = call.primary
    sent = call.sent.get("attributes", {})
    if any(shown["attributes"][name] != value for name, value in sent.items()):
        yield "the response shows other attributes than were written"
    if call.sent_linkage not in {None, call.linkages.get(identity_of(shown))}:
        yield "the response shows other links than were written"


def _marker(one: Mapping[str, Any]) -> Any:
    return one["attributes"].get(MARKERS[one["type"]])


# Versions


def _in_versions(history: Sequence[Call]) -> Iterator[Violation]:
    """Responses with the same version of a resource show the same state of it."""
    states: dict[tuple[Identity, int], dict[str, Any]] = defaultdict(dict)
    for call in history:
        if not call.succeeded or call.version is None or call.target is None:
            continue
        shown: dict[str, Any] = {}
        if not call.is_linkage:
            (resource,) = call.primary
            shown = dict(resource["attributes"])
        if call.target in call.linkages:
            shown[LINKS[call.target[0]]] = call.linkages[call.target]
        known = states[call.target, call.version]
        if any(known.setdefault(name, value) != value for name, value in shown.items()):
            yield Violation(call, "the entity tag of another state")


@dataclass(frozen=True)
class _Observation:
    """At a time between start and end, the version of a resource was from low to high.

    is_write: whether the request made this version.
    """

    start: float
    end: float
    low: float
    high: float
    is_write: bool


class _Timeline:
    """The observations of one resource."""

    def __init__(self, observations: Iterable[_Observation]) -> None:
        observed = list(observations)
        writes = sorted((one for one in observed if one.is_write), key=lambda one: one.low)
        by_high = sorted(observed, key=lambda one: one.high)
        by_low = sorted(observed, key=lambda one: one.low, reverse=True)
        self._written = [one.low for one in writes]
        self._writes = [-inf, *accumulate((one.start for one in writes), max)]
        self._highs = [one.high for one in by_high]
        self._starts = [-inf, *accumulate((one.start for one in by_high), max)]
        self._lows = [-one.low for one in by_low]
        self._ends = [inf, *accumulate((one.end for one in by_low), min)]

    def interval(self, call: Call, low: float, high: float) -> tuple[float, float]:
        """Return the earliest and the latest time at which the version was from low to high.

        It was lower before the write that made `low`, and at some time after the start of any
        request that observed a lower one; one that begins after the call is stale itself. It was
        higher from the end of any request that observed a higher one.
        """
        lower = self._starts[bisect_left(self._highs, low)]
        earliest = self._writes[bisect_right(self._written, low)]
        if lower <= call.end:
            earliest = max(earliest, lower)
        return earliest, self._ends[bisect_left(self._lows, -high)]


_LAST, _DELETED = 2**63, 2**64
"""Versions greater than those of any state, and that of a deleted resource."""


class _Versions:
    """Which versions of a resource had which marker, as the responses to writes state."""

    def __init__(self, history: Sequence[Call]) -> None:
        self._first: dict[Identity, dict[Any, int]] = defaultdict(dict)
        for call in history:
            if call.succeeded and call.version is not None and call.target and call.sent:
                marker = call.sent.get("attributes", {}).get(MARKERS[call.target[0]])
                if marker is not None:
                    self._first[call.target][marker] = call.version
        self._sorted = {one: sorted(first.values()) for one, first in self._first.items()}

    def range(self, identity: Identity, marker: Any) -> tuple[float, float] | None:
        """Return the lowest and the highest version with a marker, None if it is not known."""
        low = self._first[identity].get(marker)
        if low is None:
            return None
        later = self._sorted[identity]
        following = bisect_right(later, low)
        return low, later[following] - 1 if following < len(later) else _LAST


def _observations(call: Call, versions: _Versions) -> Iterator[tuple[Identity, float, float]]:
    """Yield the versions that a response shows: resource, lowest and highest."""
    if call.target and _shows_deletion(call):
        yield call.target, _DELETED, _DELETED
    exact = None if call.version is None or not call.succeeded else call.target
    if exact and call.version is not None:
        yield exact, call.version, call.version
    for one in call.resources:
        identity = identity_of(one)
        found = None if identity == exact else versions.range(identity, _marker(one))
        if found:
            yield identity, *found


def _shows_deletion(call: Call) -> bool:
    is_gone = (call.method, call.status) in {("GET", 404), ("DELETE", 204), ("DELETE", 404)}
    return is_gone and not call.is_linkage


def _in_time(history: Sequence[Call]) -> Iterator[Violation]:
    """Every document shows one point in time between its request and its response."""
    versions = _Versions(history)
    observed: dict[Identity, list[_Observation]] = defaultdict(list)
    for call in history:
        for identity, low, high in _observations(call, versions):
            is_write = identity in {identity_of(one) for one in call.written()}
            observed[identity].append(_Observation(call.start, call.end, low, high, is_write))
    timelines = {identity: _Timeline(one) for identity, one in observed.items()}
    for call in history:
        earliest, latest = call.start, call.end
        for identity, low, high in _observations(call, versions):
            start, end = timelines[identity].interval(call, low, high)
            earliest, latest = max(earliest, start), min(latest, end)
        if earliest > latest:
            is_stale = latest < call.start
            yield Violation(call, "a stale read" if is_stale else "resources of different times")


# Links


def _in_replaced_linkage(history: Sequence[Call], rules: Rules) -> Iterator[Violation]:
    """The links of a person that are only ever replaced are those of the latest write."""
    writes: dict[str, list[Call]] = defaultdict(list)
    for call in history:
        if call.target and call.target[0] == "person" and call.sent_linkage is not None:
            is_applied = call.succeeded or call.status is None
            if is_applied and call.target[1] in rules.replaced | rules.codes.keys():
                writes[call.target[1]].append(call)
    for call in history:
        for (kind, id_), linked in call.linkages.items():
            if kind == "person" and id_ in writes:
                candidates = _latest(call, writes[id_])
                if candidates and linked not in {one.sent_linkage for one in candidates}:
                    yield Violation(call, "links that are not those of the latest write")


def _latest(call: Call, writes: Sequence[Call]) -> list[Call]:
    """Return the writes whose result a call may show; none if it may precede all of them."""
    before = [one for one in writes if one.status is not None and one.end < call.start]
    if not before:
        return []
    last_start = max(one.start for one in before)
    return [one for one in writes if one.start <= call.end and _end(one) >= last_start]


def _end(write: Call) -> float:
    return inf if write.status is None else write.end


# Conditions


def _in_conditions(history: Sequence[Call]) -> Iterator[Violation]:
    """Of the writes with the same tag in `If-Match` exactly one is applied."""
    versions = _Versions(history)
    observed: dict[Identity, list[tuple[float, float]]] = defaultdict(list)
    for call in history:
        for identity, low, _ in _observations(call, versions):
            observed[identity].append((low, call.start))
    unknown = {call.target for call in history if call.status is None}
    winners: set[tuple[Identity | None, str]] = set()
    for call in history:
        if call.if_match is None or call.target is None:
            continue
        if call.succeeded:
            if (call.target, call.if_match) in winners:
                yield Violation(call, "a second write with the same `If-Match`")
            winners.add((call.target, call.if_match))
        tag = int(call.if_match.strip('"').partition("-")[0])
        changed = any(low > tag and at < call.end for low, at in observed[call.target])
        if call.status == 412 and not changed and call.target not in unknown:
            yield Violation(call, "412 although nothing has changed")


# Collections

_COLLECTIONS = {"/persons": "person", "/computers": "computer"}


@dataclass(frozen=True)
class _Lifetime:
    """When a resource was created and deleted: each between two times."""

    created: tuple[float, float]
    deleted: tuple[float, float] = (inf, inf)

    def spans(self, start: float, end: float) -> bool:
        return self.created[1] < start and self.deleted[0] > end

    def overlaps(self, start: float, end: float) -> bool:
        return self.created[0] < end and self.deleted[1] > start


def _lifetimes(history: Sequence[Call]) -> dict[Identity, _Lifetime]:
    lifetimes: dict[Identity, _Lifetime] = {}
    for call in history:
        for identity in _created(call):
            lifetimes[identity] = _Lifetime((call.start, call.end))
    for call in history:
        if call.method == "DELETE" and call.target in lifetimes and not call.is_linkage:
            end = call.end if call.succeeded else inf
            if call.succeeded or call.status is None:
                created = lifetimes[call.target].created
                lifetimes[call.target] = _Lifetime(created, (call.start, end))
    return lifetimes


def _created(call: Call) -> list[Identity]:
    if call.status == 201:
        return [identity_of(call.document["data"])]
    operations = (call.body or {}).get("atomic:operations", ())
    if call.succeeded and any(one["op"] == "add" for one in operations):
        return [identity_of(one) for one in call.primary]
    return []


def _in_collections(history: Sequence[Call]) -> Iterator[Violation]:
    """A collection, or all its pages, has every resource that was there all the time, once."""
    reads: dict[int, list[Call]] = defaultdict(list)
    for number, call in enumerate(history):
        is_whole = call.paging is not None or not re.search("page|filter", call.url)
        is_read = call.method == "GET" and call.succeeded
        if is_read and is_whole and call.url.partition("?")[0] in _COLLECTIONS:
            reads[-1 - number if call.paging is None else call.paging].append(call)
    lifetimes, writes = _lifetimes(history), _attribute_writes(history)
    for pages in reads.values():
        start, end = pages[0].start, pages[-1].end
        kind = _COLLECTIONS[pages[0].url.partition("?")[0]]
        counts = Counter(identity_of(one) for page in pages for one in page.primary)
        for identity, lifetime in lifetimes.items():
            if identity[0] != kind:
                continue
            is_moved = "sort=" in pages[0].url and len(pages) > 1
            is_moved = is_moved and _overlaps(writes[identity], start, end)
            if lifetime.spans(start, end) and not is_moved and counts[identity] != 1:
                reason = "repeats" if counts[identity] else "lacks"
                yield Violation(pages[-1], f"the collection {reason} {identity}")
            if counts[identity] and not lifetime.overlaps(start, end):
                yield Violation(pages[-1], f"{identity} is not yet or no longer there")


def _attribute_writes(history: Sequence[Call]) -> Mapping[Identity, list[Call]]:
    writes: dict[Identity, list[Call]] = defaultdict(list)
    for call in history:
        for one in call.written():
            writes[identity_of(one)].append(call)
    return writes


def _overlaps(calls: Iterable[Call], start: float, end: float) -> bool:
    return any(one.start < end and _end(one) > start for one in calls)


def _in_ids(history: Sequence[Call]) -> Iterator[Violation]:
    """An id is given once, also after the resource has been deleted."""
    given: set[Identity] = set()
    for call in history:
        for identity in _created(call):
            if identity in given:
                yield Violation(call, "an id that was given before")
            given.add(identity)
