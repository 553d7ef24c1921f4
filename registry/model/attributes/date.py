"""Dates and points in time."""

import datetime
import re
from collections.abc import Mapping
from typing import Any

from registry.model.attributes.base import Attribute

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


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
