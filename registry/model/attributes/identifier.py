"""The ids of resources: those in paths, documents, filters and cursors."""

from __future__ import annotations

import re
from typing import Any

from registry.model.attributes.number import Integer
from registry.model.record import MAX_ID

ID_PATTERN = "[1-9][0-9]{0,18}"
"""The canonical form of an id."""

_ID = re.compile(ID_PATTERN, re.ASCII)


def parse_id(text: str) -> int | None:
    """Return the id that the text stands for, None if it is not a positive 64-bit integer."""
    if not _ID.fullmatch(text):
        return None
    number = int(text)
    return number if number <= MAX_ID else None


class ResourceId(Integer):
    """The id of a resource, or the foreign key of a link: an integer, in JSON also as a string.

    nullable: whether it is a foreign key, which is null where nothing is linked.
    """

    expected = "a positive 64-bit integer"
    sample = 1

    def from_json(self, value: Any) -> int:
        """Return the id. Raises ValidationError for what is not an id."""
        number = parse_id(str(value)) if value.__class__ in {str, int} else None
        if number is None:
            raise self.refused()
        return number

    def from_text(self, text: str) -> int:
        """Return the id. Raises ValidationError for what is not an id."""
        return self.from_json(text)

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of a positive 64-bit integer."""
        return {"type": "integer", "minimum": 1, "maximum": MAX_ID}
