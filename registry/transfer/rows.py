"""Rows: what one row of a CSV file, or one line of an NDJSON file, says of resources."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from io import TextIOWrapper
from typing import IO, Any, TextIO, TypeAlias

from marshmallow import ValidationError

from registry.model.attributes import Attribute

ID, LID = "id", "lid"

Values: TypeAlias = dict[str, Any]
"""Attributes in JSON, by name."""

ResourceKey: TypeAlias = tuple[str, tuple[str, ...], tuple[Any, ...]]
"""A type, names of attributes, and values: those of one resource, or of few."""

MAX_LINE = 2**20
"""Characters of a line, as many as a request has bytes."""

_CHUNK_BYTES = 2**20

_ZIP = b"PK\x03\x04"
"""The first bytes of a workbook, such as an .xlsx file."""

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(slots=True)
class Mention:
    """What a row says of a resource: of its own one, or of the target of a relationship.

    id, lid: those in the file. prefix: of its columns, such as `owner.`. key: tells which resource
    it is, stored or of an earlier row; None if that is not looked up.
    """

    type: str
    values: Values = field(default_factory=dict)
    id: str | None = None
    lid: str | None = None
    prefix: str = ""
    key: ResourceKey | None = None


@dataclass(slots=True)
class Row(Mention):
    """A resource of a file.

    line: the number of its first line, from 1. links: by relationship, the target, None if it is
    empty. label: the key by which later rows link to it. defects: columns and what is wrong with
    each; a row with defects is not stored.
    """

    line: int = 0
    links: dict[str, Mention | None] = field(default_factory=dict)
    label: ResourceKey | None = None
    defects: list[tuple[str | None, str]] = field(default_factory=list)

    @property
    def mentions(self) -> list[Mention]:
        """The row itself, and the targets."""
        return [self, *filter(None, self.links.values())]

    @property
    def errors(self) -> list[str]:
        """A line for each defect."""
        return [
            f"line {self.line}{f', column {column}' if column else ''}: {reason}"
            for column, reason in self.defects
        ]

    def reject(self, column: str | None, reason: str) -> None:
        """Add a defect."""
        self.defects.append((column, reason))

    def read(
        self, mention: Mention, name: str, attribute: Attribute, value: Any, *, is_text: bool
    ) -> None:
        """Add a value to a mention as responses show it, or a defect. is_text: as in a cell."""
        try:
            loaded = attribute.from_text(value) if is_text else attribute.from_json(value)
            attribute.check(loaded)
            mention.values[name] = attribute.to_json(loaded)
        except ValidationError as error:
            self.reject(f"{mention.prefix}{name}", " ".join(map(str, error.messages)))


class InvalidFile(Exception):
    """A file that cannot be imported, or no further; the message says why and what to do."""


def decoded(source: IO[bytes], encoding: str) -> TextIO:
    """Return the text of a file, all of whose bytes are in the encoding. Raises InvalidFile."""
    start, lines = source.read(len(_ZIP)), 1
    if start == _ZIP:
        raise InvalidFile("this is a workbook: save it as CSV UTF-8")
    source.seek(0)
    try:
        for text in codecs.iterdecode(iter(partial(source.read, _CHUNK_BYTES), b""), encoding):
            lines += text.count("\n")
    except UnicodeDecodeError as error:
        # Its object is the chunk, with the incomplete character before it.
        line = lines + error.object.count(b"\n", 0, error.start)
        shown = encoding.removesuffix("-sig").upper()
        advice = "--encoding cp1252 (Windows, western Europe), --encoding utf-16"
        if start.startswith(_UTF_16_MARKS):
            advice = "--encoding utf-16"
        raise InvalidFile(
            f"not {shown}: byte 0x{error.object[error.start]:02x} in line {line}; save the "
            f"file as UTF-8, or name its encoding: {advice}"
        ) from None
    source.seek(0)
    return TextIOWrapper(source, encoding, newline="")


def read_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines with their ends. Raises InvalidFile for one that is too long."""
    for number, line in enumerate(iter(partial(file.readline, MAX_LINE), ""), 1):
        if len(line) == MAX_LINE:
            raise InvalidFile(f"line {number} is longer than {MAX_LINE:,} characters")
        yield line
