"""The attributes that no type declares: ids, the authorship, and those of histories."""

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

from registry.model.attributes import (
    EQUALITY,
    Attribute,
    DateTime,
    Integer,
    Operator,
    Text,
    utc_text,
)
from registry.model.record import MAX_ID, Record

ID_PATTERN = "[1-9][0-9]{0,18}"
"""The canonical form of an id."""

_ID = re.compile(ID_PATTERN, re.ASCII)
_INTEGER = re.compile("-?(?:0|[1-9][0-9]*)", re.ASCII)
_MAX_CHARACTERS = 20
"""The length of the longest 64-bit integer, with its sign."""


def parse_id(text: str) -> int | None:
    """Return the id, or None if the text is not a positive 64-bit integer."""
    if not _ID.fullmatch(text):
        return None
    number = int(text)
    return number if number <= MAX_ID else None


class ResourceId(Integer):
    """An id, or if nullable a foreign key; filters compare it with any integer, also in text."""

    expected = "an integer without leading zeros"
    value_schema: Mapping[str, Any] = {"type": "integer"}

    def from_json(self, value: Any) -> Any:
        """Return the integer; infinity beyond 64 bits, as every number in a record is less."""
        if value.__class__ is str:
            return self.from_text(value)
        if value.__class__ is float and abs(value) > MAX_ID:
            return math.copysign(math.inf, value)  # the parser returns such integers as floats
        if value.__class__ is not int:
            raise self.invalid()
        return self.from_text(str(value))

    def from_text(self, text: str) -> Any:
        if not _INTEGER.fullmatch(text):
            raise self.invalid()
        number = int(text) if len(text) <= _MAX_CHARACTERS else math.inf
        if -MAX_ID - 1 <= number <= MAX_ID:
            return number
        return -math.inf if text.startswith("-") else math.inf


CREATED_AT, CREATED_BY = "created_at", "created_by"
UPDATED_AT, UPDATED_BY = "updated_at", "updated_by"


_DATE_TIME = DateTime()


class StoredTime(Attribute):
    """A point in time that is stored as the text of responses, which sorts by time.

    For two times per resource, BSON dates take ten times as long to decode and to format: 3.3 us.
    """

    stored_type = str
    is_indexed = False
    expected = DateTime.expected
    sample = DateTime.sample
    value_schema = DateTime.value_schema

    def from_json(self, value: Any) -> Any:
        """Return the text in UTC, with milliseconds, of a text in any time zone."""
        return _DATE_TIME.to_json(_DATE_TIME.from_json(value))


class PrincipalName(Text):
    """The id of a principal: the name of an access token, or `issuer#subject` of a JWT."""

    is_indexed = False
    operators = EQUALITY
    constraints: Mapping[str, Any] = {}
    sample = "ci"


_PRINCIPAL_NAME = (
    "the name of an access token, or `issuer#subject` of a JWT; null if not authenticated."
)

AUTHORSHIP: Mapping[str, Attribute] = {
    CREATED_AT: StoredTime(read_only=True, description="When the resource was created."),
    CREATED_BY: PrincipalName(read_only=True, description=f"Who created it: {_PRINCIPAL_NAME}"),
    UPDATED_AT: StoredTime(
        read_only=True,
        description="When its attributes were last changed; relationships do not matter.",
    ),
    UPDATED_BY: PrincipalName(
        read_only=True, description=f"Who changed its attributes: {_PRINCIPAL_NAME}"
    ),
}
"""Read-only attributes of every type, by name. The stored field has the same name; it is missing
or null if the value is unknown.

Responses have them only if `fields` names them. Changes of links leave them alone: a person's links
change together, so the times of computers would reveal which ones share an owner to clients that
must not read persons."""


PERIOD_AUTHORSHIP: Mapping[str, Attribute] = {
    CREATED_BY: PrincipalName(read_only=True, description=f"Who began it: {_PRINCIPAL_NAME}"),
    UPDATED_BY: PrincipalName(read_only=True, description=f"Who ended it: {_PRINCIPAL_NAME}"),
}
"""The authorship of the periods of a history, whose times are attributes."""


def current_time() -> str:
    """Return the time of a write as it is stored, such as `2026-02-28T12:30:00.000Z`."""
    return utc_text(datetime.datetime.now(datetime.UTC))


def created(by: str | None, time: str) -> Record:
    """Return the stored fields of a resource that is created. by: None if nobody is known."""
    names = {} if by is None else {CREATED_BY: by, UPDATED_BY: by}
    return {CREATED_AT: time, UPDATED_AT: time, **names}


def updated(by: str | None, time: str) -> Record:
    """Return the stored fields that a change of attributes sets. by: None if nobody is known."""
    return {UPDATED_AT: time, UPDATED_BY: by}


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


class Moment(PeriodBound):
    """The moment at which periods are in force: not an attribute, only a name in filters."""

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
