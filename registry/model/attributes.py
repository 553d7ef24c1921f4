"""The attribute types that resources are declared with, and the operators that compare values."""

import datetime
import decimal
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from email_validator import SPECIAL_USE_DOMAIN_NAMES, EmailNotValidError, validate_email
from marshmallow import ValidationError, fields, missing

from registry.model.record import MAX_ID

# Companies use domains such as `fleet.local` and `lab.test` internally.
SPECIAL_USE_DOMAIN_NAMES.clear()

MAX_TEXT, _MAX_EMAIL = 255, 254

# Matches most addresses, and none that the library rejects, which takes a fifth of the time of a
# creation.
_COMMON_EMAIL = re.compile(
    r"(?=.{5,64}\Z)[a-z0-9_]+(?:[.+-][a-z0-9_]+)*@(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,}",
    re.ASCII | re.IGNORECASE,
)

_INTEGER_TEXT = re.compile(r"-?[0-9]{1,19}", re.ASCII)

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


class Operator(StrEnum):
    """A comparison of a stored field with a value."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    PREFIX = "prefix"
    CONTAINS = "contains"


EQUALITY = (Operator.EQ, Operator.NE, Operator.IN)
"""The operators of attributes whose order has no meaning."""

ORDER = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.IN)
"""The operators of ordered attributes."""


class Attribute(fields.Field[Any]):
    """An attribute: how its values are validated, stored, serialized, compared and described.

    A value has three forms: JSON, text in a query parameter, and the value in a record.

    required: creation fails without it. default: the value in a record if none is sent. nullable:
    by default true, unless the attribute is required or has a default. read_only: requests must
    not contain it. unique: no two resources have the same value; null is not compared. example,
    description: for OpenAPI.
    """

    stored_type: ClassVar[type]  # the class of values in records
    is_json: ClassVar[bool] = True  # whether values in records are the same in JSON
    is_indexed: bool = True  # whether filters and sorting have an index
    ignores_case: ClassVar[bool] = False  # whether values that differ in case alone are the same
    operators: ClassVar[tuple[Operator, ...]] = ORDER  # those that filters can use
    expected: str  # a noun phrase for valid values, for error messages
    stored_null: Any = None  # the value in a record for null
    sample: Any = None  # the example in JSON, unless the declaration has one
    value_schema: Mapping[str, Any]  # the OpenAPI schema of the values that filters compare with
    constraints: Mapping[str, Any] = {}  # added for the attribute: the limits of stored values

    def __init__(
        self,
        *,
        required: bool = False,
        default: Any = None,
        nullable: bool | None = None,
        read_only: bool = False,
        unique: bool = False,
        **metadata: Any,
    ) -> None:
        self.unique = unique
        self.nullable = not required and default is None if nullable is None else nullable
        super().__init__(
            required=required,
            load_default=missing if required else default,
            allow_none=self.nullable,
            dump_only=read_only,
            metadata=metadata,
        )

    @property
    def can_be_unique(self) -> bool:
        """Whether every value comes from a request, so that it can be the reason of an error."""
        return not self.dump_only and (self.required or self.load_default is None)

    def from_json(self, value: Any) -> Any:
        """Return the stored form of a JSON value other than null. Raises ValidationError."""
        raise NotImplementedError

    def from_text(self, text: str) -> Any:
        """Return the stored form of a value in a query parameter. Raises ValidationError."""
        return self.from_json(text)

    def check(self, value: Any) -> None:
        """Raise ValidationError for a value that filters accept, but that must not be stored."""

    def load(self, value: Any) -> Any:
        """Return what to store for a JSON value other than null. Raises ValidationError."""
        loaded = self.from_json(value)
        self.check(loaded)
        return loaded

    def to_json(self, value: Any) -> Any:
        """Return the JSON form of a value in a record."""
        return value

    def openapi_schema(self) -> dict[str, Any]:
        """Return the OpenAPI schema of the attribute."""
        schema = {**self.value_schema, **self.constraints, "example": self.sample, **self.metadata}
        if self.nullable:
            schema["nullable"] = True
            if "enum" in schema:  # OpenAPI 3.0 requires null among the values
                schema["enum"] = [*schema["enum"], None]
        if self.dump_only:
            schema["readOnly"] = True
        if not self.required and not self.dump_only:
            schema["default"] = self.to_json(self.load_default)
        return schema

    def invalid(self) -> ValidationError:
        """Return the error for an invalid value."""
        return ValidationError(f"Not {self.expected}.")

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return self.load(value)

    def _serialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return self.to_json(value)


class Text(Attribute):
    """A string of 1 to 255 characters."""

    stored_type = str
    operators: ClassVar[tuple[Operator, ...]] = (*ORDER, Operator.PREFIX, Operator.CONTAINS)
    expected = "text"
    sample = "text"
    value_schema: Mapping[str, Any] = {"type": "string"}
    constraints: Mapping[str, Any] = {"minLength": 1, "maxLength": MAX_TEXT}

    def from_json(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("Not a valid string.")
        return value

    def check(self, value: str) -> None:
        if not 0 < len(value) <= MAX_TEXT:
            raise ValidationError(f"Length must be between 1 and {MAX_TEXT}.")


class Email(Text):
    """An e-mail address of at most 254 characters, whose domain has a dot."""

    ignores_case = True
    sample = "grace.hopper@example.com"
    constraints: Mapping[str, Any] = {"format": "email", "maxLength": _MAX_EMAIL}

    def check(self, value: str) -> None:
        if _COMMON_EMAIL.fullmatch(value):
            return
        if len(value) > _MAX_EMAIL:  # before the library, which is slow on long text
            raise ValidationError(f"Longer than maximum length {_MAX_EMAIL}.")
        try:
            validate_email(value, check_deliverability=False, strict=True)
        except EmailNotValidError as error:
            raise ValidationError(f"Not a valid e-mail address. {error}") from error


class Enumeration(Text):
    """One of the declared strings, sorted alphabetically."""

    operators = EQUALITY
    constraints: Mapping[str, Any] = {}

    def __init__(self, *values: str, **options: Any) -> None:
        super().__init__(**options)
        self.values = values
        self.sample = "".join(values[:1])
        self.expected = f"one of {', '.join(values)}"
        self.value_schema = {"type": "string", "enum": list(values)}

    def from_json(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self.values:
            raise self.invalid()
        return value


class ComputedText(Text):
    """Read-only text: other text attributes, joined by a space.

    It is stored for filters and sorting, which can use an index, and computed for responses.
    """

    constraints: Mapping[str, Any] = {}  # the lengths follow from the other attributes

    def __init__(self, *parts: str, **metadata: Any) -> None:
        super().__init__(read_only=True, nullable=False, **metadata)
        self.parts = parts

    def compute(self, record: Mapping[str, Any]) -> str:
        """Return the text for a record; missing parts are empty."""
        return " ".join(record.get(part) or "" for part in self.parts)


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
        "minimum": -MAX_ID - 1,
        "maximum": MAX_ID,
    }

    def from_json(self, value: Any) -> int:
        if value.__class__ is not int or not -MAX_ID - 1 <= value <= MAX_ID:
            raise self.invalid()
        return int(value)

    def from_text(self, text: str) -> int:
        if not _INTEGER_TEXT.fullmatch(text):
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


class Date(Attribute):
    """A date such as `2026-02-28` (RFC 3339), stored as text: BSON has no type for dates."""

    stored_type = str
    expected = "a date such as 2026-02-28"
    sample = "2026-02-28"
    value_schema: Mapping[str, Any] = {"type": "string", "format": "date"}

    def from_json(self, value: Any) -> str:
        if not isinstance(value, str) or not _DATE.fullmatch(value):
            raise self.invalid()
        try:
            datetime.date.fromisoformat(value)
        except ValueError as error:
            raise self.invalid() from error
        return value


class DateTime(Attribute):
    """A point in time (RFC 3339), stored as a BSON date: in UTC, truncated to milliseconds.

    Requests can use any time zone; responses use UTC.
    """

    stored_type = datetime.datetime
    is_json = False
    expected = "a date and time with its time zone, such as 2026-02-28T12:30:00.000Z"
    sample = "2026-02-28T12:30:00.000Z"
    value_schema: Mapping[str, Any] = {"type": "string", "format": "date-time"}

    def from_json(self, value: Any) -> datetime.datetime:
        parts = _DATETIME.fullmatch(value) if isinstance(value, str) else None
        if parts is None:
            raise self.invalid()
        day, time, fraction, zone = parts.groups(default="")
        text = f"{day}T{time}.{fraction[1:4]:0<3}{zone.upper()}"
        try:
            return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
        except (ValueError, OverflowError) as error:  # beyond the years 1 to 9999, in UTC
            raise self.invalid() from error

    def to_json(self, value: datetime.datetime | None) -> str | None:
        return None if value is None else utc_text(value.astimezone(datetime.UTC))


def utc_text(time: datetime.datetime) -> str:
    """Return a time in UTC with milliseconds, such as `2026-02-28T12:30:00.000Z` (RFC 3339)."""
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
