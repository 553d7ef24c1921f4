"""Fields of marshmallow, stricter where JSON or BSON cannot take what the standard ones accept.

Schemas can mix them with those of `marshmallow.fields`.
"""

import datetime
import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from email_validator import SPECIAL_USE_DOMAIN_NAMES, EmailNotValidError, validate_email
from marshmallow import ValidationError, fields, missing, validate
from marshmallow.utils import get_value

from registry.model.attributes import (
    EQUALITY,
    KINDS,
    same,
    utc_text,
)

MAX_TEXT, _MAX_EMAIL = 255, 254

# Matches most addresses, and none that the library rejects, which takes a fifth of the time of a
# creation.
_COMMON_EMAIL = re.compile(
    r"(?=.{5,64}\Z)[a-z0-9_]+(?:[.+-][a-z0-9_]+)*@(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,}",
    re.ASCII | re.IGNORECASE,
)

_INTERNAL_DOMAINS = frozenset(SPECIAL_USE_DOMAIN_NAMES)

# Together the 34 digits of Decimal128, so that every valid number is stored exactly.
_INTEGER_DIGITS, _FRACTION_DIGITS = 24, 10
_DECIMAL = rf"-?[0-9]{{1,{_INTEGER_DIGITS}}}(\.[0-9]{{1,{_FRACTION_DIGITS}}})?"
_DECIMAL_PATTERN = re.compile(_DECIMAL, re.ASCII)

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


class String(fields.String):
    """A string of 1 to 255 characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.validators.insert(0, validate.Length(min=1, max=MAX_TEXT))


class Email(fields.Email):
    """An e-mail address of at most 254 characters, whose domain has a dot."""

    default_error_messages = {"invalid": "Not a valid string."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        others = [each for each in self.validators if not isinstance(each, validate.Email)]
        self.validators = [EmailAddress(), *others]


class EmailAddress(validate.Validator):
    """Checks the syntax of an e-mail address by the RFCs, more closely than marshmallow does."""

    max_length = _MAX_EMAIL

    def __call__(self, value: str) -> str:
        """Return the address. Raises ValidationError."""
        if _COMMON_EMAIL.fullmatch(value):
            return value
        if len(value) > _MAX_EMAIL:  # before the library, which is slow on long text
            raise ValidationError(f"Longer than maximum length {_MAX_EMAIL}.")
        try:
            validate_email(_public(value), check_deliverability=False, strict=True)
        except EmailNotValidError as error:
            raise ValidationError(f"Not a valid e-mail address. {error}") from error
        return value


def _public(address: str) -> str:
    """Return an address as long as this one whose domain is not refused for its name.

    Companies use domains such as `fleet.local` and `lab.test` internally.
    """
    rest, dot, last = address.rpartition(".")
    return f"{rest}{dot}{'x' * len(last)}" if last.lower() in _INTERNAL_DOMAINS else address


class Enumeration(fields.String):
    """One of the declared strings, sorted alphabetically."""

    def __init__(self, *values: str, **options: Any) -> None:
        super().__init__(**options)
        self.values = values
        self.kind = replace(
            KINDS[fields.String],
            expected=f"one of {', '.join(values)}",
            schema={"type": "string", "enum": list(values)},
            example="".join(values[:1]),
            operators=EQUALITY,
            check=None,
        )
        message = f"Not {self.kind.expected}."
        self.error_messages["invalid"] = message.replace("{", "{{").replace("}", "}}")

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            raise self.make_error("invalid")
        return value


class ComputedText(fields.String):
    """Read-only text: other text attributes, joined by a space.

    It is stored for filters and sorting, which can use an index, and computed for responses.
    """

    def __init__(self, *parts: str, **options: Any) -> None:
        super().__init__(dump_only=True, **options)
        self.parts = parts

    def get_value(
        self,
        obj: Any,
        attr: str,  # noqa: ARG002 - as in the method that it overrides
        accessor: Callable[[Any, str, Any], Any] | None = None,
        default: Any = missing,  # noqa: ARG002
    ) -> str:
        """Return the text of an object; missing parts are empty."""
        read = accessor or get_value
        return " ".join([read(obj, part, None) or "" for part in self.parts])

    def compute(self, record: Mapping[str, Any]) -> str:
        """Return the text for a record."""
        return " ".join([record.get(part) or "" for part in self.parts])


class Boolean(fields.Boolean):
    """`true` or `false`; false sorts before true."""

    default_error_messages = {"invalid": "Not true or false."}

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> bool:
        if value.__class__ is not bool:
            raise self.make_error("invalid")
        return bool(value)


class Integer(fields.Integer):
    """A 64-bit integer, in JSON a number without a fraction."""

    default_error_messages = {"invalid": "Not a 64-bit integer."}

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if value.__class__ is not int:
            raise self.make_error("invalid")
        return int(value)

    def _serialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return value


class Decimal(fields.Decimal):
    """An exact decimal number, in JSON a string such as "12.50", stored as Decimal128.

    Trailing zeros are kept. JSON numbers are not accepted, as most parsers read them as binary
    fractions.
    """

    kind = replace(
        KINDS[fields.Decimal],
        expected=f'a decimal number in a string, such as "12.50", with at most {_INTEGER_DIGITS} '
        f"digits before the point and {_FRACTION_DIGITS} after it",
        schema={"type": "string", "format": "decimal", "pattern": f"^{_DECIMAL}$"},
        check=None,
    )
    default_error_messages = {"invalid": f"Not {kind.expected}."}

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> decimal.Decimal:
        if not isinstance(value, str) or not _DECIMAL_PATTERN.fullmatch(value):
            raise self.make_error("invalid")
        return decimal.Decimal(value)

    def _serialize(self, value: Any, *_: Any, **__: Any) -> str | None:
        return None if value is None else f"{value:f}"


class Date(fields.Date):
    """A date such as `2026-02-28` (RFC 3339)."""

    default_error_messages = {"invalid": "Not a date such as 2026-02-28."}

    def _deserialize(self, value: Any, *others: Any, **options: Any) -> datetime.date:
        if not isinstance(value, str) or not _DATE.fullmatch(value):
            raise self.make_error("invalid")
        return super()._deserialize(value, *others, **options)

    def _serialize(self, value: Any, *_: Any, **__: Any) -> str | None:
        return None if value is None else value.isoformat()


class DateTime(fields.DateTime):
    """A point in time (RFC 3339), stored as a BSON date: in UTC, truncated to milliseconds.

    Requests can use any time zone; responses use UTC.
    """

    kind = replace(KINDS[fields.DateTime], check=None, store=same)
    default_error_messages = {"invalid": f"Not {kind.expected}."}

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        parts = _DATETIME.fullmatch(value) if isinstance(value, str) else None
        if parts is None:
            raise self.make_error("invalid")
        day, time, fraction, zone = parts.groups(default="")
        text = f"{day}T{time}.{fraction[1:4]:0<3}{zone.upper()}"
        try:
            return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
        except (ValueError, OverflowError) as error:  # beyond the years 1 to 9999, in UTC
            raise self.make_error("invalid") from error

    def _serialize(self, value: Any, *_: Any, **__: Any) -> str | None:
        return None if value is None else utc_text(value.astimezone(datetime.UTC))
