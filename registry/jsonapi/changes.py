"""What a request changes: attributes, and the linkage of relationships."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Self

from registry.model.record import LinkedIds
from registry.model.resource import Relationship


@dataclass(frozen=True, slots=True)
class Identifier:
    """A resource identifier of a request.

    id: negative for a placeholder of an operation; None if `text`, the id or local id as the client
    sent it, is not a valid id. pointer: the position in the document, for errors.
    """

    id: int | None
    text: str
    pointer: str


class Mode(Enum):
    """How linkage changes a to-many relationship (JSON:API 1.0, Updating Relationships)."""

    REPLACE = "replace"
    ADD = "add"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Linkage:
    """The resource identifiers sent for a relationship, and how they change it."""

    relationship: Relationship
    identifiers: tuple[Identifier, ...]
    mode: Mode = Mode.REPLACE

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

    author: the id of the principal that sent it, None if it is not known.
    """

    attributes: dict[str, Any]
    linkages: tuple[Linkage, ...]
    author: str | None = None

    @property
    def size(self) -> int:
        """The number of resource identifiers."""
        return sum(len(linkage.identifiers) for linkage in self.linkages)

    def written_by(self, author: str | None) -> Self:
        """Return the change with its author."""
        return self if author is None else replace(self, author=author)
