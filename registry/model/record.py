"""Records: resources as MongoDB stores them, and the ids that link them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
"""A stored document: `_id`, the attributes, and the foreign keys of links."""

MAX_ID = 2**63 - 1
"""The largest integer that MongoDB stores."""

VERSION = "version"
"""The stored field that is incremented on every write, for optimistic concurrency control."""

OBSOLETE_FIELDS = ("write_id",)
"""Fields that records of earlier versions of the service have; never returned."""

TEXT_BLOCK = "text_block"
"""The stored field with the id of the text block that has the texts of the record; never returned.

Missing or null if no block has them as they are now.
"""


def hashable_id(id_: Any) -> Any:
    """Return an id, or its text if it is a document, as external writers may have stored.

    Also if it is a boolean, which would be equal to 0 or 1.
    """
    return str(id_) if id_.__class__ is dict or id_.__class__ is bool else id_


def make_ids_hashable(records: Iterable[Record]) -> None:
    """Replace ids that are documents by their text."""
    for record in records:
        record["_id"] = hashable_id(record["_id"])


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The first ids of a to-many relationship, ascending: at most `size`. more: others follow."""

    ids: list[int]
    size: int
    more: bool


LinkedIds: TypeAlias = "int | list[int] | FirstPage | None"
"""The linkage of one resource: an id or None if to-one, all ids or the first page if to-many."""


def ids_in(linked_ids: LinkedIds) -> Sequence[int]:
    """Return the ids in the linkage of one resource."""
    match linked_ids:
        case None:
            return ()
        case int():
            return (linked_ids,)
        case FirstPage():
            return linked_ids.ids
    return linked_ids
