"""Resource ids in paths, documents, filters and cursors."""

import math
import re
from collections.abc import Mapping
from typing import Any

from registry.model.attributes import Integer
from registry.model.record import MAX_ID

ID_PATTERN = "[1-9][0-9]{0,18}"
"""The canonical form of an id."""

_ID = re.compile(ID_PATTERN, re.ASCII)
_INTEGER = re.compile("-?(?:0|[1-9][0-9]*)", re.ASCII)
_MAX_CHARACTERS = 20
"""Those of the longest 64-bit integer, which has a sign."""


def parse_id(text: str) -> int | None:
    """Return the id, or None if the text is not a positive 64-bit integer."""
    if not _ID.fullmatch(text):
        return None
    number = int(text)
    return number if number <= MAX_ID else None


class ResourceId(Integer):
    """A resource id or a foreign key, which filters compare with any integer, also as a string.

    nullable: whether it is a foreign key, which is null without a link.
    """

    expected = "an integer without leading zeros"
    value_schema: Mapping[str, Any] = {"type": "integer"}

    def from_json(self, value: Any) -> Any:
        """Return the integer; infinity beyond 64 bits, as every number in a record is less."""
        if value.__class__ is str:
            return self.from_text(value)
        if value.__class__ is float and abs(value) > MAX_ID:
            return math.copysign(math.inf, value)  # the parser returns such integers as floats
        if value.__class__ is not int:
            raise self.invalid()
        return self.from_text(str(value))

    def from_text(self, text: str) -> Any:
        if not _INTEGER.fullmatch(text):
            raise self.invalid()
        number = int(text) if len(text) <= _MAX_CHARACTERS else math.inf
        if -MAX_ID - 1 <= number <= MAX_ID:
            return number
        return -math.inf if text.startswith("-") else math.inf
