"""True or false."""

from __future__ import annotations

from typing import Any

from registry.model.attributes.base import Attribute
from registry.model.operators import EQUALITY


class Boolean(Attribute):
    """`true` or `false`, stored as it is; false is before true."""

    stored_type = bool
    operators = EQUALITY
    expected = "true or false"
    sample = True

    def from_json(self, value: Any) -> bool:
        """Return the value. Raises ValidationError for anything but a JSON boolean."""
        if value.__class__ is not bool:
            raise self.refused()
        return bool(value)

    def from_text(self, text: str) -> bool:
        """Return what `true` or `false` stands for. Raises ValidationError."""
        if text not in {"true", "false"}:
            raise self.refused()
        return text == "true"

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of a boolean."""
        return {"type": "boolean"}
