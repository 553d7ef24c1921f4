"""What the class of a marshmallow field implies: operators, stored form and OpenAPI schema.

`KINDS` is the table. A subclass of a field inherits the row of its parent; one that differs has an
attribute `kind` with a row of its own.
"""

import datetime
import decimal
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self

from marshmallow import ValidationError, fields

from registry.model.cells import ReadCell, read_boolean, read_date, read_decimal, read_time
from registry.model.record import MAX_ID

MAX_INTEGER, MIN_INTEGER = MAX_ID, -MAX_ID - 1

_INTEGER_TEXT = re.compile(r"-?[0-9]{1,19}", re.ASCII)

_DECIMAL128 = decimal.Context(
    prec=34, Emin=-6143, Emax=6144, traps=[decimal.Inexact, decimal.Overflow]
)


class Operator(StrEnum):
    """A comparison of a stored field with a value.

    label: what people read before the value; time_label: the same for dates and times. operand:
    what is compared with, a `value` of the attribute, a `list` of values, or a `part` of the text.
    """

    label: str
    operand: str
    time_label: str

    EQ = "eq", "is"
    NE = "ne", "is not"
    LT = "lt", "is less than", "value", "is before"
    LE = "le", "is at most", "value", "is at or before"
    GT = "gt", "is more than", "value", "is after"
    GE = "ge", "is at least", "value", "is at or after"
    IN = "in", "is one of", "list"
    PREFIX = "prefix", "begins with", "part"
    CONTAINS = "contains", "contains", "part"

    def __new__(
        cls, name: str, label: str = "", operand: str = "value", time_label: str | None = None
    ) -> Self:
        """Return a member, which is its name in query parameters."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.label, member.operand, member.time_label = label, operand, time_label or label
        return member


EQUALITY = (Operator.EQ, Operator.NE, Operator.IN)
"""The operators of attributes whose order has no meaning."""

ORDER = (Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE, Operator.IN)
"""The operators of ordered attributes."""

TEXT_OPERATORS = (*ORDER, Operator.PREFIX, Operator.CONTAINS)


def same(value: Any) -> Any:
    """Return the value, where its forms are the same."""
    return value


@dataclass(frozen=True, slots=True)
class Kind:
    """What the service does with the values of a class of fields.

    stored_type: the class of values in records. expected: a noun phrase for valid values, for error
    messages. schema: OpenAPI, of the values that filters compare with. example: of a value in JSON.
    parse: a value in a query parameter -> the value in JSON; raises ValueError, with a message only
    if it says more than `expected`. read: the same for a cell of a spreadsheet; None if people
    write it alike. check: a validator of loaded values, for those that MongoDB cannot store; None
    if the field loads no others. store: a loaded value -> the stored form. restore: the reverse.
    ignores_case: whether unique values that differ in case alone are the same.
    """

    stored_type: type
    expected: str
    schema: Mapping[str, Any]
    example: Any
    operators: tuple[Operator, ...] = ORDER
    parse: Callable[[str], Any] = same
    read: ReadCell | None = None
    check: Callable[[Any], None] | None = None
    store: Callable[[Any], Any] = same
    restore: Callable[[Any], Any] = same
    ignores_case: bool = False


def check_text(value: str) -> None:
    """Raise ValidationError for lone surrogates, which UTF-8 cannot encode."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValidationError("Not a valid utf-8 string.") from error


def _check_integer(value: int) -> None:
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise ValidationError("Not a 64-bit integer.")


def _check_decimal(value: decimal.Decimal) -> None:
    try:
        _DECIMAL128.create_decimal(value)
    except decimal.DecimalException as error:
        raise ValidationError("Not a decimal number of at most 34 digits.") from error


def _check_time(value: datetime.datetime) -> None:
    try:
        _stored_time(value)
    except OverflowError as error:  # beyond the years 1 to 9999
        raise ValidationError("Not a valid datetime.") from error


def _stored_time(value: datetime.datetime) -> datetime.datetime:
    """Return a time as BSON has it, in UTC with milliseconds. One without a zone is in UTC."""
    aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    utc = aware.astimezone(datetime.UTC)
    return utc.replace(microsecond=utc.microsecond // 1_000 * 1_000)


def _parse_boolean(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError
    return text == "true"


def _parse_integer(text: str) -> int:
    if not _INTEGER_TEXT.fullmatch(text):
        raise ValueError
    return int(text)


_TEXT = Kind(
    stored_type=str,
    expected="text",
    schema={"type": "string"},
    example="text",
    operators=TEXT_OPERATORS,
    check=check_text,
)

KINDS: Mapping[type[fields.Field[Any]], Kind] = {
    fields.String: _TEXT,
    fields.Email: replace(_TEXT, example="grace.hopper@example.com", ignores_case=True),
    fields.Url: replace(_TEXT, example="https://example.com/"),
    fields.UUID: Kind(
        stored_type=str,
        expected="a UUID",
        schema={"type": "string", "format": "uuid"},
        example="8e03978e-40d5-43e8-bc93-6894a57f9324",
        operators=EQUALITY,
        store=str,
        restore=uuid.UUID,
    ),
    fields.Boolean: Kind(
        stored_type=bool,
        expected="true or false",
        schema={"type": "boolean"},
        example=True,
        operators=EQUALITY,
        parse=_parse_boolean,
        read=read_boolean,
    ),
    fields.Integer: Kind(
        stored_type=int,
        expected="a 64-bit integer",
        schema={
            "type": "integer",
            "format": "int64",
            "minimum": MIN_INTEGER,
            "maximum": MAX_INTEGER,
        },
        example=1,
        parse=_parse_integer,
        check=_check_integer,
    ),
    fields.Decimal: Kind(
        stored_type=decimal.Decimal,
        expected='a decimal number in a string, such as "12.50"',
        schema={"type": "string"},
        example="12.50",
        read=read_decimal,
        check=_check_decimal,
        # The driver has a class of its own in the replies to some commands.
        restore=lambda stored: decimal.Decimal(str(stored)),
    ),
    fields.Date: Kind(
        stored_type=str,  # BSON has no type for dates
        expected="a date such as 2026-02-28",
        schema={"type": "string", "format": "date"},
        example="2026-02-28",
        read=read_date,
        store=datetime.date.isoformat,
        restore=datetime.date.fromisoformat,
    ),
    fields.DateTime: Kind(
        stored_type=datetime.datetime,
        expected="a date and time with its time zone, such as 2026-02-28T12:30:00.000Z",
        schema={"type": "string", "format": "date-time"},
        example="2026-02-28T12:30:00.000Z",
        read=read_time,
        check=_check_time,
        store=_stored_time,
        restore=lambda stored: stored.astimezone(datetime.UTC),
    ),
}
"""The kind of each class of fields that schemas can have, and of its subclasses."""


def kind_of(field: fields.Field[Any]) -> Kind:
    """Return the kind of a field: its own, else that of its class or the nearest parent.

    Raises ValueError without one.
    """
    own: Kind | None = getattr(field, "kind", None)
    if own is not None:
        return own
    for each in type(field).__mro__:
        if each in KINDS:
            return KINDS[each]
    reason = f"is a {type(field).__name__}, whose stored form is not known"
    raise ValueError(f"{field.name} {reason}: give the class a `kind`")


def utc_text(time: datetime.datetime) -> str:
    """Return a time in UTC with milliseconds, such as `2026-02-28T12:30:00.000Z` (RFC 3339)."""
    return time.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
