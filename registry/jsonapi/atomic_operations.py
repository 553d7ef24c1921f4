"""Operations, and the names of their documents (JSON:API extension Atomic Operations)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from registry.jsonapi.changes import Change, Identifier
from registry.jsonapi.pointers import DocumentPosition
from registry.model.resource import Resource

EXTENSION = "https://jsonapi.org/ext/atomic"
"""The URI of the extension in the media type."""

OPERATIONS = "atomic:operations"
RESULTS = "atomic:results"

_NO_CHANGE = Change({}, ())


class Verb(Enum):
    """The effect of an operation on its resource."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one resource.

    target: the resource; a negative id is a placeholder for a resource that an operation of the
    same request creates. shown: whether the result contains the resource.
    """

    verb: Verb
    resource: Resource
    target: Identifier
    change: Change = _NO_CHANGE
    shown: bool = False

    def with_assigned_ids(self, ids: Mapping[int, int]) -> Self:
        """Return the operation with placeholders replaced by the ids assigned to them."""
        linkages = tuple(
            replace(linkage, identifiers=tuple(_assign(each, ids) for each in linkage.identifiers))
            for linkage in self.change.linkages
        )
        change = replace(self.change, linkages=linkages)
        return replace(self, target=_assign(self.target, ids), change=change)

    def written_by(self, author: str | None) -> Self:
        """Return the operation with the author of its change."""
        return self if author is None else replace(self, change=self.change.written_by(author))


def operation_position(index: int) -> DocumentPosition:
    """Return the position of an operation in its document."""
    return DocumentPosition((OPERATIONS, index))


def _assign(identifier: Identifier, ids: Mapping[int, int]) -> Identifier:
    id_ = identifier.id
    return identifier if id_ is None else replace(identifier, id=ids.get(id_, id_))
