"""Booleans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.model.attributes.base import Attribute
from registry.model.operators import EQUALITY


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
