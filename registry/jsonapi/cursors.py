"""Cursors: opaque strings that encode a position in a sort order (cursor pagination profile)."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
from marshmallow import ValidationError

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidParameter
from registry.jsonapi.sorting import Order

Position: TypeAlias = tuple[Any, ...]
"""The stored values of the sort keys of a resource; empty: the end of the collection."""

END: Position = ()


@dataclass(frozen=True, slots=True)
class Cursors:
    """Encodes and decodes the cursors of one type in one order."""

    type: str
    order: Order

    def encode(self, position: Position) -> str:
        """Return the cursor of a position."""
        pairs = zip(self.order, position, strict=False)
        values = [None if one is None else key.attribute.to_cursor(one) for key, one in pairs]
        text = orjson.dumps([self._name(), values])
        return urlsafe_b64encode(text).rstrip(b"=").decode()

    def decode(self, cursor: str, parameter: str) -> Position:
        """Return a position. Raises InvalidParameter for a cursor of another type or order."""
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            name, values = orjson.loads(urlsafe_b64decode(padded))
            if name != self._name() or not isinstance(values, list):
                raise ValueError(name)
            pairs = zip(self.order, values, strict=True) if values else ()
            return tuple(
                None if value is None else key.attribute.from_cursor(value) for key, value in pairs
            )
        except (ValueError, TypeError, ValidationError) as error:
            reason = "is not a cursor of this collection in this order"
            detail = f"{quoted(cursor)} {reason}; cursors are in the links of a page."
            raise InvalidParameter(detail, parameter=parameter) from error

    def _name(self) -> str:
        return f"{self.type}:{','.join(map(str, self.order))}"
