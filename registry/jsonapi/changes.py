"""Changes: what a request writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self, TypeAlias

from registry.jsonapi.error_objects import DATA, JsonPointer
from registry.model.record import LinkedIds
from registry.model.resource_type import Relationship, ResourceType

Versions: TypeAlias = frozenset[int] | None
"""Versions of a resource; None for any."""


NO_RESOURCE = 0
"""An id that no resource has: ids begin at 1, and placeholders are negative."""


@dataclass(slots=True)
class Identifier:
    """A resource identifier of a request.

    id: of a resource, or the placeholder of one that an operation adds; NO_RESOURCE if `text`, the
    id as the client sent it, is not a valid one. pointer: the position in the document, for errors;
    None if the id is that of the path.
    """

    id: int
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


@dataclass(slots=True)
class Linkage:
    """The resource identifiers sent for a relationship, and how they change it.

    ids: the valid ids among them, ascending and without duplicates.
    """

    relationship: Relationship
    identifiers: tuple[Identifier, ...]
    verb: Verb = Verb.UPDATE
    ids: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ids = sorted({each.id for each in self.identifiers if each.id != NO_RESOURCE})

    @property
    def linked_ids(self) -> LinkedIds:
        """The ids that the relationship leads to after it has been replaced."""
        if self.relationship.to_many:
            return self.ids
        return next(iter(self.ids), None)


@dataclass(slots=True)
class Change:
    """The attributes, by name, and the relationships that a request writes.

    read_only: attributes that a client has read and sends back, which must have these values in
    JSON. sent: of an addition that merges, the attributes as they were sent, from which a creation
    gets defaults.
    """

    attributes: dict[str, Any]
    linkages: tuple[Linkage, ...]
    read_only: Mapping[str, Any] = field(default_factory=dict)
    sent: Mapping[str, Any] | None = None

    @property
    def size(self) -> int:
        """The number of resource identifiers."""
        return sum([len(linkage.identifiers) for linkage in self.linkages])


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
    change: Change
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
    def changes_links(self) -> bool:
        """Whether it may change links, or delete a resource that others link to."""
        return bool(self.change.linkages) or self.verb is Verb.REMOVE

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
        change = self.change
        if all(ids.keys().isdisjoint(linkage.ids) for linkage in change.linkages):
            return self
        linkages = tuple(
            replace(linkage, identifiers=tuple(_assign(each, ids) for each in linkage.identifiers))
            for linkage in change.linkages
        )
        return replace(self, change=replace(change, linkages=linkages))


def _assign(identifier: Identifier, ids: Mapping[int, int]) -> Identifier:
    id_ = ids.get(identifier.id)
    return identifier if id_ is None else replace(identifier, id=id_)
