"""Rows: what one row of a CSV file, or one line of an NDJSON file, describes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from registry.resources.computer import computer
from registry.resources.person import person

PERSON, COMPUTER = person.type, computer.type
SERIAL, SERIALS = "serial", "serials"
OWNER = computer.links[0].name
COMPUTERS = computer.links[0].inverse

PERSON_ATTRIBUTES = tuple(name for name in person.attributes if name in person.writable)
"""The attributes that a client can write, in the order of their declaration."""

COMPUTER_ATTRIBUTES = tuple(name for name in computer.attributes if name in computer.writable)
"""The same for computers."""

Attributes: TypeAlias = Mapping[str, Any]
"""Attributes by name, as in the JSON of a resource object."""


@dataclass(frozen=True, slots=True)
class Row:
    """A person and their computers, or without a person computers that have no owner.

    person, computers: their attributes. line: the number of the first line of the row in a file,
    from 1; 0 if it is not in one yet. continues: whether it has more computers of the person of the
    row before, which it repeats.
    """

    person: Attributes | None
    computers: Sequence[Attributes]
    line: int = 0
    continues: bool = False


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A row that is not stored. reason: one line for the user."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class InvalidFile(Exception):
    """A file that cannot be imported at all; the message is one line with the reason."""


def counted(count: int, noun: str) -> str:
    """Return a count and its noun, in the plural unless it is one."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"
