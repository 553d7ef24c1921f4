"""The feed of changes: the server-sent events that tell what was written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from registry.jsonapi.changes import Verb
from registry.model.fieldset import fieldset
from registry.model.implicit_attributes import UPDATED_AT, UPDATED_BY
from registry.model.record import Record
from registry.model.resource_type import ResourceType

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
    """The types whose changes a group of followers gets, and the types it may see links to."""

    types: frozenset[str]
    readable: frozenset[str]


def encode_commit(changes: Sequence[ChangedRecord], position: str, audience: Audience) -> bytes:
    """Return the events of one transaction; `position` is the one after them."""
    visible = (_operation(change, audience) for change in _additions_first(changes))
    events = [b"data: " + orjson.dumps(operation) + b"\n\n" for operation in visible if operation]
    if events:
        events[-1] = b"id: " + position.encode() + b"\n" + events[-1]
    return b"".join(events)


def encode_end(document: bytes) -> bytes:
    """Return the event that says why a feed ends. document: of the errors, on one line."""
    return b"event: end\ndata: " + document + b"\n\n"


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
    shown = fieldset(resource, resource.shown_writable).dump(fields)
    attributes = {name: value for name, value in shown.items() if name in fields}
    relationships = {}
    for link in resource.links:
        if link.target in audience.readable and link.foreign_key in fields:
            key = fields[link.foreign_key]
            data = None if key is None else {"type": link.target, "id": str(key)}
            relationships[link.name] = {"data": data}
    if change.verb is Verb.UPDATE and not (attributes or relationships):
        return None
    members: Mapping[str, Any] = {"attributes": attributes, "relationships": relationships}
    data = identifier | {name: value for name, value in members.items() if value}
    written = fields.get(UPDATED_AT) if attributes else None
    meta = {UPDATED_AT: written or change.time, UPDATED_BY: change.author}
    return {"op": change.verb, "data": data, "meta": meta}


def _additions_first(changes: Sequence[ChangedRecord]) -> Iterable[ChangedRecord]:
    """Return changes in their order, except that an addition precedes what links to it."""
    added = {(each.resource.type, each.id): each for each in changes if each.verb is Verb.ADD}
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
