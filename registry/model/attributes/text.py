"""Texts: free ones, e-mail addresses, enumerations, and those computed from others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from email_validator import SPECIAL_USE_DOMAIN_NAMES, EmailNotValidError, validate_email
from marshmallow import ValidationError

from registry.model.attributes.base import Attribute
from registry.model.operators import EQUALITY, ORDER, Operator

# Domains such as `fleet.local` and `lab.test` are in use inside of companies.
SPECIAL_USE_DOMAIN_NAMES.clear()

_MAX_TEXT, _MAX_EMAIL = 255, 254

# The shape of nearly all addresses, shorter than the limit of any part. To the library each is one
# more of many cases, which takes a fifth of the time of a creation.
_COMMON_EMAIL = re.compile(
    r"(?=.{5,64}\Z)[a-z0-9_]+(?:[.+-][a-z0-9_]+)*@(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,}",
    re.ASCII | re.IGNORECASE,
)


class Text(Attribute):
    """A string of 1 to 255 characters, stored as sent."""

    stored_type = str
    operators: ClassVar[tuple[Operator, ...]] = (*ORDER, Operator.PREFIX, Operator.CONTAINS)
    expected = "text"
    sample = "text"

    def from_json(self, value: Any) -> str:
        """Return the text. Raises ValidationError for another kind."""
        if not isinstance(value, str):
            raise ValidationError("Not a valid string.")
        return value

    def check(self, value: str) -> None:
        """Raise ValidationError if the text is empty or too long."""
        if not 0 < len(value) <= _MAX_TEXT:
            raise ValidationError(f"Length must be between 1 and {_MAX_TEXT}.")

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of any text."""
        return {"type": "string"}

    def constraints(self) -> dict[str, Any]:
        """Return the lengths that can be stored."""
        return {"minLength": 1, "maxLength": _MAX_TEXT}


class Email(Text):
    """An e-mail address of at most 254 characters, stored as sent; its domain has a dot."""

    sample = "grace.hopper@example.com"

    def check(self, value: str) -> None:
        """Raise ValidationError if the text is not an address that mail servers take."""
        if _COMMON_EMAIL.fullmatch(value):
            return
        if len(value) > _MAX_EMAIL:  # refused before the library, which takes long on a long text
            raise ValidationError(f"Longer than maximum length {_MAX_EMAIL}.")
        try:
            validate_email(value, check_deliverability=False, strict=True)
        except EmailNotValidError as error:
            raise ValidationError(f"Not a valid e-mail address. {error}") from error

    def constraints(self) -> dict[str, Any]:
        """Return the format and the length that can be stored."""
        return {"format": "email", "maxLength": _MAX_EMAIL}


class Enumeration(Text):
    """One of the texts that are declared, stored as it is and sorted by the alphabet."""

    operators = EQUALITY

    def __init__(self, *values: str, **options: Any) -> None:
        super().__init__(**options)
        self.values = values
        self.sample = "".join(values[:1])
        self.expected = f"one of {', '.join(values)}"

    def from_json(self, value: Any) -> str:
        """Return the text. Raises ValidationError if it is not among the declared ones."""
        if not isinstance(value, str) or value not in self.values:
            raise self.refused()
        return value

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of the declared texts."""
        return {"type": "string", "enum": list(self.values)}

    def constraints(self) -> dict[str, Any]:
        """Return nothing, as each of the texts can be stored."""
        return {}


class ComputedText(Text):
    """A read-only text: those of other attributes, joined by one space.

    It is stored beside them, so that an index can serve filters and sorting. Responses are computed
    from the other attributes, whatever is stored.
    """

    def __init__(self, *parts: str, **metadata: Any) -> None:
        super().__init__(read_only=True, nullable=False, **metadata)
        self.parts = parts

    def compute(self, record: Mapping[str, Any]) -> str:
        """Return the text for a record; a part that is missing is empty."""
        texts = (record.get(part) for part in self.parts)
        return " ".join("" if text is None else str(text) for text in texts)

    def constraints(self) -> dict[str, Any]:
        """Return nothing: the lengths follow from the other attributes."""
        return {}
