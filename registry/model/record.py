"""Records: resources as MongoDB stores them, and the ids that link them."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
"""A stored document: `_id`, the attributes, and the foreign keys of links."""

ID = "_id"
"""The stored field of the id."""

MAX_ID = 2**63 - 1
"""The largest integer that MongoDB stores."""

VERSION = "version"
"""The stored field that is incremented on every write, for optimistic concurrency control."""

MAX_VERSION = 10**18 - 1

LAST_WRITE = "last_write"
"""The stored field with version and author, such as `3 ci`, of the last write with a known author;
never returned. It changes with each such write, so a change stream shows every author."""


def version_of(record: Record) -> int:
    """Return the version of a record; 0 of a period, which has none."""
    return record.get(VERSION) or 0


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The first ids of a to-many relationship, ascending: at most `size`. more: others follow."""

    ids: list[int]
    size: int
    more: bool


class StreamedIds:
    """All ids of a to-many relationship, too many to be in memory.

    type: of the members. chunks: their ids, ascending, which can be read once.
    """

    __slots__ = ("chunks", "type")

    def __init__(self, type_name: str, chunks: AsyncGenerator[list[int]]) -> None:
        self.type = type_name
        self.chunks = chunks


LinkedIds: TypeAlias = "int | list[int] | FirstPage | StreamedIds | None"
"""The linkage of one resource: an id or None if to-one, all ids or the first page if to-many."""


def ids_in(linked_ids: LinkedIds) -> Sequence[int]:
    """Return the ids in the linkage of one resource, none for streamed ones."""
    match linked_ids:
        case None | StreamedIds():
            return ()
        case int():
            return (linked_ids,)
        case FirstPage():
            return linked_ids.ids
    return linked_ids
