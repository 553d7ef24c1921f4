"""How BSON stores values of Python that it has no class for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from bson.codec_options import TypeCodec
from bson.decimal128 import Decimal128


class DecimalCodec(TypeCodec):
    """Stores exact decimal numbers as Decimal128, so that MongoDB compares them as numbers."""

    @property
    def python_type(self) -> type:
        """The class in records."""
        return Decimal

    @property
    def bson_type(self) -> type:
        """The class in BSON."""
        return Decimal128

    def transform_python(self, value: Any) -> Decimal128:
        """Return a number, of at most 34 digits, as it is stored."""
        return Decimal128(value)

    def transform_bson(self, value: Any) -> Decimal:
        """Return a stored number."""
        number: Decimal = value.to_decimal()
        return number
