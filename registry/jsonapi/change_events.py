"""Changes of resources -> server-sent events, each of them an atomic operation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from registry.access.principal import Action, Principal, sufficient_scopes
from registry.jsonapi.changes import Verb
from registry.jsonapi.error_objects import ErrorCollector, quoted, unknown_type
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.query import unknown_parameter
from registry.model.graph import Graph
from registry.model.implicit_attributes import UPDATED_AT, UPDATED_BY
from registry.model.record import Record
from registry.model.resource_type import ResourceType

AFTER, TYPES = "page[after]", "filter[type]"
"""The query parameters of the feed."""

BEGINNING = b"retry: 2000\n\n"
"""Sent first: the milliseconds after which browsers connect again."""


@dataclass(frozen=True, slots=True)
class ChangedRecord:
    """A change of one record.

    fields: stored values by name, of a new record or of those that changed; null if removed. time:
    when it was committed. author: the id of the principal, None if it is not known.
    """

    verb: Verb
    resource: ResourceType
    id: int
    fields: Record
    time: str
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Audience:
    """The types whose changes a group of followers is sent, and those that links may name."""

    types: frozenset[str]
    readable: frozenset[str]


@dataclass(frozen=True, slots=True)
class FeedQuery:
    """The parameters of the feed; None for those that were not sent. after: a position."""

    types: tuple[str, ...] | None
    after: str | None


def parse_feed_query(parameters: Iterable[tuple[str, str]], graph: Graph) -> FeedQuery:
    """Return the query of a request. Raises ApiErrors with all InvalidParameters."""
    sent, errors = dict[str, str](), ErrorCollector()
    types: tuple[str, ...] | None = None
    known = [resource.type for resource in graph.writable]
    for name, value in parameters:
        if name in sent:
            errors.add(InvalidParameter(f"{quoted(name)} is given twice.", parameter=name))
        elif name not in {AFTER, TYPES}:
            errors.add(unknown_parameter(name, (AFTER, TYPES)))
        elif name == TYPES:
            types = tuple(value.split(","))
            for unknown in dict.fromkeys(types):
                if unknown not in known:
                    errors.add(InvalidParameter(unknown_type(unknown, known), parameter=TYPES))
        sent[name] = value
    errors.raise_any()
    return FeedQuery(types, sent.get(AFTER))


def readable_types(principal: Principal | None, graph: Graph) -> frozenset[str]:
    """Return the types that a principal may read; all of them if nobody has to be known."""
    return frozenset(
        name
        for name, resource in graph.items()
        if principal is None or principal.has_one_of(sufficient_scopes(Action.READ, resource))
    )


def encode_commit(changes: Sequence[ChangedRecord], position: str, audience: Audience) -> bytes:
    """Return the events of one transaction; `position` is the one after them."""
    visible = (_operation(change, audience) for change in _additions_first(changes))
    events = [b"data: " + orjson.dumps(one) + b"\n\n" for one in visible if one]
    if events:
        events[-1] = b"id: " + position.encode() + b"\n" + events[-1]
    return b"".join(events)


def encode_position(position: str) -> bytes:
    """Return the event for a position, so that a follower without changes knows a recent one."""
    data = orjson.dumps({"position": position})
    return b"event: position\nid: " + position.encode() + b"\ndata: " + data + b"\n\n"


def _operation(change: ChangedRecord, audience: Audience) -> Mapping[str, Any] | None:
    """Return the operation that repeats a change; None if the audience sees nothing of it."""
    resource, fields = change.resource, change.fields
    if resource.type not in audience.types:
        return None
    identifier = {"type": resource.type, "id": str(change.id)}
    if change.verb is Verb.REMOVE:
        return {"op": change.verb, "ref": identifier}
    attributes = {
        name: resource.json_value(name, fields)
        for name in resource.attributes
        if name in fields and name in resource.writable
    }
    relationships = {}
    for link in resource.links:
        if link.target in audience.readable and link.foreign_key in fields:
            key = fields[link.foreign_key]
            data = None if key is None else {"type": link.target, "id": str(key)}
            relationships[link.name] = {"data": data}
    if change.verb is Verb.UPDATE and not (attributes or relationships):
        return None
    members: Mapping[str, Any] = {"attributes": attributes, "relationships": relationships}
    data = identifier | {name: one for name, one in members.items() if one}
    written = fields.get(UPDATED_AT) if attributes else None
    meta = {UPDATED_AT: written or change.time, UPDATED_BY: change.author}
    return {"op": change.verb, "data": data, "meta": meta}


def _additions_first(changes: Sequence[ChangedRecord]) -> Iterable[ChangedRecord]:
    """Return changes in their order, except that an addition precedes what links to it."""
    added = {(one.resource.type, one.id): one for one in changes if one.verb is Verb.ADD}
    if not added or len(changes) == 1:
        return changes
    ordered: dict[int, ChangedRecord] = {}
    for change in changes:
        waiting = {id(change): change}
        while waiting:
            last = next(reversed(waiting.values()))
            for link in last.resource.links:
                target = added.get((link.target, last.fields.get(link.foreign_key, 0)))
                if target and id(target) not in ordered and id(target) not in waiting:
                    waiting[id(target)] = target
                    break
            else:
                ordered.setdefault(*waiting.popitem())
    return ordered.values()
