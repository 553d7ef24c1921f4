"""Resource ids in paths, documents, filters and cursors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from registry.model.attributes.number import Integer
from registry.model.record import MAX_ID

ID_PATTERN = "[1-9][0-9]{0,18}"
"""The canonical form of an id."""

_ID = re.compile(ID_PATTERN, re.ASCII)


def parse_id(text: str) -> int | None:
    """Return the id, or None if the text is not a positive 64-bit integer."""
    if not _ID.fullmatch(text):
        return None
    number = int(text)
    return number if number <= MAX_ID else None


class ResourceId(Integer):
    """A resource id or a foreign key: an integer, in JSON also as a string.

    nullable: whether it is a foreign key, which is null without a link.
    """

    expected = "a positive 64-bit integer"
    value_schema: Mapping[str, Any] = {"type": "integer", "minimum": 1, "maximum": MAX_ID}

    def from_json(self, value: Any) -> int:
        number = parse_id(str(value)) if value.__class__ in {str, int} else None
        if number is None:
            raise self.invalid()
        return number

    def from_text(self, text: str) -> int:
        return self.from_json(text)
