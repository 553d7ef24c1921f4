"""Dates, and points in time."""

from __future__ import annotations

import datetime
import re
from typing import Any

from registry.model.attributes.base import Attribute

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


class Date(Attribute):
    """A day such as `2026-02-28`, stored as this text: BSON has no type for days."""

    stored_type = str
    expected = "a date such as 2026-02-28"
    sample = "2026-02-28"

    def from_json(self, value: Any) -> str:
        """Return the text. Raises ValidationError if it is not a day of the calendar."""
        if not isinstance(value, str) or not _DATE.fullmatch(value):
            raise self.refused()
        try:
            datetime.date.fromisoformat(value)
        except ValueError as error:
            raise self.refused() from error
        return value

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of an RFC 3339 full-date."""
        return {"type": "string", "format": "date"}


class DateTime(Attribute):
    """A point in time by RFC 3339, stored as a BSON date: in UTC, to the millisecond.

    In any time zone as sent, in UTC as shown. What is finer than a millisecond is cut off.
    """

    stored_type = datetime.datetime
    is_json = False
    expected = "a date and time with its time zone, such as 2026-02-28T12:30:00.000Z"
    sample = "2026-02-28T12:30:00.000Z"

    def from_json(self, value: Any) -> datetime.datetime:
        """Return the time in UTC. Raises ValidationError if there is no such time, or no zone."""
        parts = _DATETIME.fullmatch(value) if isinstance(value, str) else None
        if parts is None:
            raise self.refused()
        day, time, fraction, zone = parts.groups(default="")
        text = f"{day}T{time}.{fraction[1:4]:0<3}{zone.upper()}"
        try:
            return datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
        except (ValueError, OverflowError) as error:  # beyond the years 1 to 9999, in UTC
            raise self.refused() from error

    def to_json(self, value: Any) -> str | None:
        """Return the time in UTC, with three digits of a second."""
        if not isinstance(value, datetime.datetime):
            return None if value is None else str(value)
        text = value.astimezone(datetime.UTC).isoformat(timespec="milliseconds")
        return text.removesuffix("+00:00") + "Z"

    def json_schema(self) -> dict[str, Any]:
        """Return the schema of an RFC 3339 date-time."""
        return {"type": "string", "format": "date-time"}
