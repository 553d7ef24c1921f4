"""Booleans, integers and exact decimal numbers."""

import decimal
import re
from collections.abc import Mapping
from typing import Any

from registry.model.attributes.base import EQUALITY, Attribute
from registry.model.record import MAX_ID

_MIN_INTEGER, _MAX_INTEGER = -MAX_ID - 1, MAX_ID
_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)

# Together the 34 digits of Decimal128, so that every valid number is stored exactly.
_INTEGER_DIGITS, _FRACTION_DIGITS = 24, 10
_DECIMAL = rf"-?[0-9]{{1,{_INTEGER_DIGITS}}}(\.[0-9]{{1,{_FRACTION_DIGITS}}})?"
_DECIMAL_PATTERN = re.compile(_DECIMAL, re.ASCII)
_TRAPS = [decimal.Inexact, decimal.InvalidOperation, decimal.Overflow]
_DECIMAL128 = decimal.Context(prec=34, Emin=-6143, Emax=6144, clamp=1, traps=_TRAPS)


class Boolean(Attribute):
    """`true` or `false`; false sorts before true."""

    stored_type = bool
    operators = EQUALITY
    expected = "true or false"
    sample = True
    value_schema: Mapping[str, Any] = {"type": "boolean"}

    def from_json(self, value: Any) -> bool:
        if value.__class__ is not bool:
            raise self.invalid()
        return bool(value)

    def from_text(self, text: str) -> bool:
        if text not in {"true", "false"}:
            raise self.invalid()
        return text == "true"


class Integer(Attribute):
    """A 64-bit integer, in JSON a number without a fraction."""

    stored_type = int
    expected = "a 64-bit integer"
    sample = 1
    value_schema: Mapping[str, Any] = {
        "type": "integer",
        "format": "int64",
        "minimum": _MIN_INTEGER,
        "maximum": _MAX_INTEGER,
    }

    def from_json(self, value: Any) -> int:
        if value.__class__ is not int or not _MIN_INTEGER <= value <= _MAX_INTEGER:
            raise self.invalid()
        return int(value)

    def from_cursor(self, value: Any) -> int:
        return Integer.from_json(self, value)

    def from_text(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise self.invalid()
        return self.from_json(int(text))


class Decimal(Attribute):
    """An exact decimal number, in JSON a string such as "12.50", stored as Decimal128.

    Trailing zeros are kept. JSON numbers are not accepted, as most parsers read them as binary
    fractions.
    """

    stored_type = decimal.Decimal
    is_json = False
    expected = (
        f'a decimal number in a string, such as "12.50", with at most {_INTEGER_DIGITS} digits '
        f"before the point and {_FRACTION_DIGITS} after it"
    )
    sample = "12.50"
    value_schema: Mapping[str, Any] = {"type": "string", "pattern": f"^{_DECIMAL}$"}

    def from_json(self, value: Any) -> decimal.Decimal:
        if not isinstance(value, str) or not _DECIMAL_PATTERN.fullmatch(value):
            raise self.invalid()
        return decimal.Decimal(value)

    def to_json(self, value: Any) -> str | None:
        """Return the number as text; it may also have the driver's class for Decimal128."""
        return None if value is None else f"{decimal.Decimal(str(value)):f}"

    def to_cursor(self, value: Any) -> str:
        return str(value)

    def from_cursor(self, value: Any) -> decimal.Decimal:
        try:
            return _DECIMAL128.create_decimal(value)
        except (decimal.DecimalException, TypeError, ValueError) as error:
            raise self.invalid() from error
