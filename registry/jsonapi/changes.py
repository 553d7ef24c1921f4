"""Changes: what a request writes, and the server-sent events that tell what was written."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self, TypeAlias

import orjson

from registry.access.principal import Action, Principal, sufficient_scopes
from registry.jsonapi.error_objects import DATA, JsonPointer
from registry.model.fieldset import fieldset
from registry.model.graph import Graph
from registry.model.implicit_attributes import UPDATED_AT, UPDATED_BY
from registry.model.record import LinkedIds, Record
from registry.model.resource_type import Relationship, ResourceType

Versions: TypeAlias = frozenset[int] | None
"""Versions of a resource; None for any."""


@dataclass(slots=True)
class Identifier:
    """A resource identifier of a request.

    id: negative for a placeholder of an operation; None if `text`, the id or local id as the client
    sent it, is not a valid id. pointer: the position in the document, for errors; None if the id is
    that of the path.
    """

    id: int | None
    text: str
    pointer: str | None


class Verb(StrEnum):
    """The effect of a write, by its name in the extension Atomic Operations.

    Resources are created, updated and deleted; members of a relationship are added, replaced and
    removed (JSON:API 1.0, Updating Relationships).
    """

    ADD = "add"
    UPDATE = "update"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Linkage:
    """The resource identifiers sent for a relationship, and how they change it."""

    relationship: Relationship
    identifiers: tuple[Identifier, ...]
    verb: Verb = Verb.UPDATE

    @property
    def ids(self) -> list[int]:
        """The valid ids, ascending and without duplicates."""
        ids = {identifier.id for identifier in self.identifiers}
        return sorted(id_ for id_ in ids if id_ is not None)

    @property
    def linked_ids(self) -> LinkedIds:
        """The ids that the relationship leads to after it has been replaced."""
        if self.relationship.to_many:
            return self.ids
        return next(iter(self.ids), None)


@dataclass(frozen=True, slots=True)
class Change:
    """The attributes, by name, and the relationships that a request writes.

    author: the id of the principal that sent it, None if it is not known. read_only: attributes
    that a client has read and sends back, which must have these values in JSON. sent: of an
    addition that merges, the attributes as they were sent, from which a creation gets defaults.
    """

    attributes: dict[str, Any]
    linkages: tuple[Linkage, ...]
    author: str | None = None
    read_only: Mapping[str, Any] = field(default_factory=dict)
    sent: Mapping[str, Any] | None = None

    @property
    def size(self) -> int:
        """The number of resource identifiers."""
        return sum(len(linkage.identifiers) for linkage in self.linkages)


NEW = Identifier(-1, "", None)
"""The target of a request that creates one resource."""

NO_CHANGE = Change({}, ())


@dataclass(slots=True)
class Write:
    """One write to one resource: a request, or one of its atomic operations.

    target: the resource; a negative id is a placeholder for a resource that a write of the same
    request creates. versions, excluded: those that the resource may have, and those that it must
    not have. position: of the resource object in the document. is_shown: whether the response shows
    the resource. merges: whether it is sent to add a resource, or to update one that has the value
    of a unique attribute.
    """

    verb: Verb
    resource: ResourceType
    target: Identifier
    change: Change = NO_CHANGE
    versions: Versions = None
    excluded: Versions = frozenset()
    position: JsonPointer = DATA
    is_shown: bool = True
    merges: bool = False

    def allows(self, version: int) -> bool:
        """Return whether the resource may have this version."""
        is_named = self.versions is None or version in self.versions
        return is_named and self.excluded is not None and version not in self.excluded

    @property
    def size(self) -> int:
        """The number of resources that it names."""
        return 1 + self.change.size

    @property
    def sets_unique(self) -> bool:
        """Whether values of unique attributes come into use, or out of use."""
        resource = self.resource
        if self.verb is Verb.UPDATE:
            return resource.has_unique(self.change.attributes)
        return bool(resource.unique_attributes)

    @property
    def unique_values(self) -> Mapping[str, Any]:
        """The values that it sets of unique attributes, other than null, in their order."""
        attributes = self.change.attributes
        return {
            name: attributes[name]
            for name in self.resource.unique_attributes
            if attributes.get(name) is not None
        }

    def with_ids(self, ids: Mapping[int, int]) -> Self:
        """Return the write with the placeholders in its linkages replaced by these ids."""
        change, linked = self.change, (one.identifiers for one in self.change.linkages)
        if not any(identifier.id in ids for sent in linked for identifier in sent):
            return self
        linkages = tuple(
            replace(one, identifiers=tuple(_assign(each, ids) for each in one.identifiers))
            for one in change.linkages
        )
        return replace(self, change=replace(change, linkages=linkages))

    def written_by(self, author: str | None) -> Self:
        """Return the write with its author."""
        if author is not None:
            self.change = replace(self.change, author=author)  # others may share the one before
        return self


def _assign(identifier: Identifier, ids: Mapping[int, int]) -> Identifier:
    id_ = identifier.id
    if id_ is None or id_ not in ids:
        return identifier
    return replace(identifier, id=ids[id_])


BEGINNING = b"retry: 2000\n\n"
"""Sent first: the milliseconds after which browsers connect again."""

COMMENT = b":\n\n"
"""Keeps proxies from closing a connection without changes."""


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


Event: TypeAlias = tuple[str, bytes]
"""The type of a resource, and the server-sent event that tells of a change to it."""


@dataclass(frozen=True, slots=True)
class Audience:
    """The types whose changes a group of followers gets, and the types it may see links to."""

    types: frozenset[str]
    readable: frozenset[str]


def readable_types(principal: Principal | None, graph: Graph) -> frozenset[str]:
    """Return the types that a principal may read; all of them without authentication."""
    return frozenset(
        name
        for name, resource in graph.items()
        if principal is None or principal.has_one_of(sufficient_scopes(Action.READ, resource))
    )


def encode_changes(changes: Sequence[ChangedRecord], readable: frozenset[str]) -> list[Event]:
    """Return the events of one transaction, without a position, for who may read these types."""
    return [
        (change.resource.type, b"data: " + orjson.dumps(operation) + b"\n\n")
        for change in _additions_first(changes)
        if (operation := _operation(change, readable))
    ]


def join_events(events: Iterable[Event], types: frozenset[str], position: str) -> bytes:
    """Return the events of these types; the last of them has the position after the transaction."""
    selected = [event for type_name, event in events if type_name in types]
    if selected:
        selected[-1] = b"id: " + position.encode() + b"\n" + selected[-1]
    return b"".join(selected)


def encode_end(document: bytes) -> bytes:
    """Return the event that says why a feed ends. document: of the errors, on one line."""
    return b"event: end\ndata: " + document + b"\n\n"


def encode_position(position: str) -> bytes:
    """Return the event for a position, so that a follower without changes knows a recent one."""
    data = orjson.dumps({"position": position})
    return b"event: position\nid: " + position.encode() + b"\ndata: " + data + b"\n\n"


def _operation(change: ChangedRecord, readable: frozenset[str]) -> Mapping[str, Any] | None:
    """Return the operation that repeats a change; None if nothing of it may be seen."""
    resource, fields = change.resource, change.fields
    if resource.type not in readable:
        return None
    identifier = {"type": resource.type, "id": str(change.id)}
    if change.verb is Verb.REMOVE:
        return {"op": change.verb, "ref": identifier}
    shown = fieldset(resource, resource.shown_writable).dump(fields)
    attributes = {name: value for name, value in shown.items() if name in fields}
    relationships = {}
    for link in resource.links:
        if link.target in readable and link.foreign_key in fields:
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
