"""The fields that no type declares: ids, the authorship, and those of histories."""

import datetime
import math
import re
from dataclasses import replace
from typing import Any

from marshmallow import fields

from registry.model.attributes import EQUALITY, KINDS, Operator, same, utc_text
from registry.model.fields import DateTime, Integer
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

    kind = replace(
        KINDS[fields.Integer],
        expected="an integer without leading zeros",
        schema={"type": "integer"},
        parse=same,
        check=None,
    )
    default_error_messages = {"invalid": f"Not {kind.expected}."}

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> Any:
        """Return the integer; infinity beyond 64 bits, as every number in a record is less."""
        if value.__class__ is float and abs(value) > MAX_ID:
            return math.copysign(math.inf, value)  # the parser returns such integers as floats
        if value.__class__ not in {str, int} or not _INTEGER.fullmatch(text := str(value)):
            raise self.make_error("invalid")
        number = int(text) if len(text) <= _MAX_CHARACTERS else math.inf
        if -MAX_ID - 1 <= number <= MAX_ID:
            return number
        return -math.inf if text.startswith("-") else math.inf


CREATED_AT, CREATED_BY = "created_at", "created_by"
UPDATED_AT, UPDATED_BY = "updated_at", "updated_by"

AUTHORSHIP = (CREATED_AT, CREATED_BY, UPDATED_AT, UPDATED_BY)
"""Read-only attributes of every type, in the schema that all schemas have as a base.

The stored field has the same name; it is missing or null if the value is unknown. Responses have
them only if `fields` names them. Changes of links leave them alone: a person's links change
together, so the times of computers would reveal which ones share an owner to clients that must not
read persons.
"""


def unindexed(description: str, **more: Any) -> dict[str, Any]:
    """Return the metadata of an attribute without an index, as each index costs every write."""
    return {"description": description, "indexed": False, **more}


class StoredTime(DateTime):
    """A point in time that is stored as the text of responses, which sorts by time.

    For two times per resource, BSON dates take ten times as long to decode and to format: 3.3 us.
    """

    kind = replace(DateTime.kind, stored_type=str, store=utc_text, restore=same)

    def __init__(self, description: str) -> None:
        super().__init__(dump_only=True, allow_none=True, metadata=unindexed(description))

    def _serialize(self, value: Any, *_: Any, **__: Any) -> Any:
        return value


class PrincipalName(fields.String):
    """The id of a principal: the name of an access token, or `issuer#subject` of a JWT."""

    kind = replace(KINDS[fields.String], operators=EQUALITY, example="ci")

    def __init__(self, description: str) -> None:
        text = f"{description}: the name of an access token, or `issuer#subject` of a JWT; null if "
        metadata = unindexed(f"{text}not authenticated.")
        super().__init__(dump_only=True, allow_none=True, metadata=metadata)


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


SINCE, UNTIL, AT = "since", "until", "at"
"""The names of the bounds, and of the filter for the periods in force at a moment."""


class Moment(DateTime):
    """The moment at which periods are in force: not an attribute, only a name in filters."""

    kind = replace(DateTime.kind, operators=(Operator.EQ,))


class CopiedText(fields.String):
    """A text attribute of one end of a link, as it was when a period ended; null before.

    end: the relationship of the period that leads there. source: the name of the attribute there.
    """

    def __init__(self, end: str, source: str, *, metadata: dict[str, Any]) -> None:
        # The lengths follow from the attribute there.
        metadata = {**metadata, "x-copied-from": end, "indexed": False}
        super().__init__(dump_only=True, allow_none=True, metadata=metadata)
        self.end = end
        self.source = source
