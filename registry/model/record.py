"""Records: resources as MongoDB stores them, and the ids that link them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
"""A stored document: `_id`, the attributes, and the foreign keys of links."""

MAX_ID = 2**63 - 1
"""The largest integer that MongoDB stores."""

VERSION = "version"
"""The stored field that is incremented on every write, for optimistic concurrency control."""


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The first ids of a to-many relationship, ascending.

    size: the maximum number of ids. more: whether others follow.
    """

    ids: list[int]
    size: int
    more: bool


LinkedIds: TypeAlias = "int | list[int] | FirstPage | None"
"""The ids that a relationship of one resource leads to: one or None when to-one, all of them or a
page when to-many."""
