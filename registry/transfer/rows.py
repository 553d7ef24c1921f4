"""Rows: what one row of a CSV file, or one line of an NDJSON file, says of one resource."""

import codecs
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any, TextIO, TypeAlias

from registry.model.attributes import Attribute
from registry.model.resource_type import Relationship, ResourceType

ID, LID = "id", "lid"

Values: TypeAlias = dict[str, Any]
"""Attributes in JSON, or an id or a local id, by name."""

Note: TypeAlias = Callable[[str], None]
"""Shows a line to the user."""

MAX_LINE = 2**20
"""Characters of a line, as many as a request has bytes."""

_CHUNK_BYTES = 2**20

_ZIP = b"PK\x03\x04"
"""The first bytes of a workbook, such as an .xlsx file."""

_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(slots=True)
class Row:
    """A resource of a file.

    line: the number of its first line, from 1. values: attributes. links: by relationship, what the
    file says of the target, None if it is empty. id, lid: those in the file. size: characters in
    the file.
    """

    line: int
    type: str
    values: Values
    links: dict[str, Values | None] = field(default_factory=dict)
    id: str | None = None
    lid: str | None = None
    size: int = 0


class InvalidRow(Exception):
    """A row that cannot be stored. defects: its columns and what is wrong with each."""

    def __init__(self, line: int, *defects: tuple[str | None, str]) -> None:
        super().__init__(line, *defects)
        self.line = line
        self.defects = defects

    def lines(self) -> list[str]:
        """Return one line for each defect."""
        return [
            f"line {self.line}{f', column {column}' if column else ''}: {reason}"
            for column, reason in self.defects
        ]


class InvalidFile(Exception):
    """A file that cannot be imported, or no further; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Resource objects to write. related: attributes of targets by type and id."""

    resources: Sequence[Mapping[str, Any]]
    related: Mapping[tuple[str, str], Values]


def to_one(resource: ResourceType) -> Mapping[str, Relationship]:
    """Return the relationships that rows of a type can have, by name."""
    return {name: one for name, one in resource.relationships.items() if not one.to_many}


def canonical(attribute: Attribute, value: Any, *, from_text: bool = False) -> Any:
    """Return a value as responses show it. Raises ValidationError."""
    loaded = attribute.from_text(value) if from_text else attribute.from_json(value)
    attribute.check(loaded)
    return attribute.to_json(loaded)


@contextmanager
def opened_text(name: str, encoding: str) -> Iterator[TextIO]:
    """Yield a file, or a copy of standard input (`-`), all of whose bytes are in the encoding.

    Raises InvalidFile or OSError.
    """
    with ExitStack() as stack:
        if name != "-":
            source: IO[bytes] = stack.enter_context(Path(name).open("rb"))
        elif sys.stdin is None:
            raise InvalidFile("standard input is closed")
        else:
            source = stack.enter_context(TemporaryFile())
            copyfileobj(sys.stdin.buffer, source)
            source.seek(0)
        _check_encoding(source, encoding)
        source.seek(0)
        yield TextIOWrapper(source, encoding, newline="")


def read_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines with their ends. Raises InvalidFile for one that is too long."""
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise InvalidFile(f"line {number} is longer than {MAX_LINE:,} characters")
        yield line


def _check_encoding(source: IO[bytes], encoding: str) -> None:
    start = source.read(len(_ZIP))
    source.seek(0)
    if start == _ZIP:
        raise InvalidFile("this is a workbook: save it as CSV UTF-8")
    decoder, lines = codecs.getincrementaldecoder(encoding)(), 0
    is_last = False
    while not is_last:
        chunk = source.read(_CHUNK_BYTES)
        is_last = not chunk
        try:
            lines += decoder.decode(chunk, final=is_last).count("\n")
        except UnicodeDecodeError as error:
            # Its object is the chunk, with the incomplete character before it.
            line = lines + error.object.count(b"\n", 0, error.start) + 1
            shown = encoding.removesuffix("-sig").upper()
            advice = "--encoding cp1252 (Windows, western Europe), --encoding utf-16"
            if start.startswith(_UTF_16_MARKS):
                advice = "--encoding utf-16"
            raise InvalidFile(
                f"not {shown}: byte 0x{error.object[error.start]:02x} in line {line}; save the "
                f"file as UTF-8, or name its encoding: {advice}"
            ) from None
