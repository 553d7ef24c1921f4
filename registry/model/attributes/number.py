"""Integers and exact decimal numbers."""

from __future__ import annotations

import decimal
import re
from typing import Any

from registry.model.attributes.base import Attribute

_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)

# Together the 34 digits of Decimal128, so that every number of this shape is stored exactly.
_INTEGER_DIGITS, _FRACTION_DIGITS = 24, 10
_DECIMAL = rf"-?[0-9]{{1,{_INTEGER_DIGITS}}}(\.[0-9]{{1,{_FRACTION_DIGITS}}})?"
_IS_DECIMAL = re.compile(_DECIMAL, re.ASCII)
_DECIMAL128 = decimal.Context(
    prec=34,
    Emin=-6143,
    Emax=6144,
    clamp=1,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow],
)


class Integer(Attribute):
    """An integer of 64 bits, sent as a JSON number without fraction and stored as it is."""

    stored_type = int
    expected = "an integer of 64 bits"
    sample = 1

    def from_json(self, value: Any) -> int:
        """Return the value. Raises ValidationError for other kinds and beyond 64 bits."""
        if value.__class__ is not int or not _MIN_INTEGER <= value <= _MAX_INTEGER:
            raise self.refused()
        return int(value)

    def from_cursor(self, value: Any) -> int:
        """Return the integer. Raises ValidationError."""
        return Integer.from_json(self, value)

    def from_text(self, text: str) -> int:
        """Return the number that decimal digits stand for. Raises ValidationError."""
        if not _INTEGER.fullmatch(text):
            raise self.refused()
        return self.from_json(int(text))

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of an integer of 64 bits."""
        return {
            "type": "integer",
            "format": "int64",
            "minimum": _MIN_INTEGER,
            "maximum": _MAX_INTEGER,
        }


class Decimal(Attribute):
    """An exact decimal number, in JSON a string such as "12.50", stored as Decimal128.

    It keeps its digits after the point, zeros too. JSON numbers are refused, as most parsers read
    them as binary fractions.
    """

    stored_type = decimal.Decimal
    is_json = False
    expected = (
        f'a decimal number in a string, such as "12.50", with at most {_INTEGER_DIGITS} digits '
        f"before the point and {_FRACTION_DIGITS} after it"
    )
    sample = "12.50"

    def from_json(self, value: Any) -> decimal.Decimal:
        """Return the number. Raises ValidationError for other kinds and for more digits."""
        if not isinstance(value, str) or not _IS_DECIMAL.fullmatch(value):
            raise self.refused()
        return decimal.Decimal(value)

    def to_json(self, value: Any) -> str | None:
        """Return the digits, without an exponent."""
        if isinstance(value, decimal.Decimal) and value.is_finite():
            return f"{value:f}"
        return None if value is None else str(value)

    def to_cursor(self, value: decimal.Decimal) -> str:
        """Return all digits and the exponent."""
        return str(value)

    def from_cursor(self, value: Any) -> decimal.Decimal:
        """Return the number, of any shape that Decimal128 has. Raises ValidationError."""
        try:
            return _DECIMAL128.create_decimal(value)
        except (decimal.DecimalException, TypeError, ValueError) as error:
            raise self.refused() from error

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of the string."""
        return {"type": "string", "pattern": f"^{_DECIMAL}$"}
