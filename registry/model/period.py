"""The attributes of periods: when each begins and ends, and what it copies."""

import datetime
from typing import Any

from registry.model.attributes import DateTime, Operator, Text

BEGINNING = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
"""Stored for the beginning of a period that began before records did."""

LASTING = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC)
"""Stored for the end of a period that lasts."""

_STEP = datetime.timedelta(milliseconds=1)

SINCE, UNTIL, AT = "since", "until", "at"
"""The names of the bounds, and of the filter for the periods in force at a moment."""


class PeriodBound(DateTime):
    """The beginning or the end of a period. Null if it is unknown or still to come.

    stored_null: the time that is stored for null, which is before or after any other. Sorting and
    comparing thus need no special case, and `since <= T < until` is a range.
    """

    is_indexed = False  # the periods of one resource are few

    def __init__(self, stored_null: datetime.datetime, **metadata: Any) -> None:
        super().__init__(read_only=True, **metadata)
        self.stored_null = stored_null

    def from_json(self, value: Any) -> datetime.datetime:
        """Return the time, between those that are stored for null."""
        return min(max(super().from_json(value), BEGINNING + _STEP), LASTING - _STEP)

    def to_json(self, value: datetime.datetime | None) -> str | None:
        return None if value == self.stored_null else super().to_json(value)

    def to_cursor(self, value: Any) -> Any:
        return super().to_json(value)

    def from_cursor(self, value: Any) -> datetime.datetime:
        return super().from_json(value)


class Moment(PeriodBound):
    """The moment at which periods are in force. It is no attribute, only filters name it."""

    operators = (Operator.EQ,)

    def __init__(self) -> None:
        super().__init__(BEGINNING)
        self.nullable = False


class CopiedText(Text):
    """A text attribute of one end of a link: its present value, stored when a period ends.

    end: the relationship of the period that leads there. source: the name of the attribute there.
    """

    is_indexed = False

    def __init__(self, end: str, source: str, **metadata: Any) -> None:
        super().__init__(read_only=True, **metadata)
        self.end = end
        # The lengths follow from the attribute there.
        self.constraints = {"x-copied-from": end}
        self.source = source

    def check(self, value: str) -> None:
        """Accept any text: its limits are those of the attribute there."""

    @property
    def parts(self) -> tuple[str, str]:
        """The stored fields that it follows from."""
        return str(self.name), UNTIL
