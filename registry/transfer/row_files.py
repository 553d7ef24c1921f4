"""Rows of CSV files, as spreadsheets write them, and of NDJSON files: what each says of resources.

A CSV file has the format of `csv_format`, an NDJSON file a resource object of JSON:API per line.
"""

import codecs
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from io import TextIOWrapper
from itertools import chain
from typing import IO, Any, TextIO, TypeAlias

import orjson
from marshmallow import ValidationError

from registry.csv_format import Column, find_column, unescaped
from registry.model.graph import Graph
from registry.model.resource_field import ResourceField
from registry.model.resource_type import Relationship, ResourceType
from registry.program import note

ID, LID = "id", "lid"

Values: TypeAlias = dict[str, Any]
"""The id and attributes in JSON, by name."""

ResourceKey: TypeAlias = tuple[str, tuple[str, ...], tuple[Any, ...]]
"""A type, names of values, and these values: those of one resource, or of few."""

_MAX_LINE = 2**20
"""Characters of a line, as many as a request has bytes."""

_DELIMITERS = ",;\t|"
_SEP = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)

_note_once = cache(note)

_MEMBERS: Mapping[str, Any] = {
    "type": str,
    ID: str | None,
    LID: str | None,
    "attributes": dict,
    "relationships": dict,
    "links": object,
    "meta": object,
}
"""The members of a resource object."""


@dataclass(slots=True)
class Mention:
    """What a row says of a resource: of its own one, or of the target of a relationship.

    lid: its local id. prefix: of its columns, such as `owner.`. key: tells which resource it is,
    stored or of an earlier row; None for a new one. is_named: whether less than all values do.
    """

    type: str
    values: Values = field(default_factory=dict)
    lid: str | None = None
    prefix: str = ""
    key: ResourceKey | None = None
    is_named: bool = False

    @property
    def label(self) -> ResourceKey | None:
        """The key of its local id, by which rows link to an earlier one."""
        return None if self.lid is None else (self.type, (LID,), (self.lid,))


@dataclass(slots=True)
class Row(Mention):
    """A resource of a file.

    line: the number of its first line, from 1. links: by relationship, the target, None if it is
    empty. defects: columns and what is wrong with each; a row with defects is not stored.
    """

    line: int = 0
    links: dict[str, Mention | None] = field(default_factory=dict)
    defects: list[tuple[str | None, str]] = field(default_factory=list)

    @property
    def mentions(self) -> list[Mention]:
        """The row itself, and the targets."""
        return [self, *filter(None, self.links.values())]

    def reject(self, column: str | None, reason: str) -> None:
        """Add a defect."""
        self.defects.append((column, reason))

    def read(
        self, mention: Mention, name: str, attribute: ResourceField, value: Any, *, is_text: bool
    ) -> None:
        """Add a value to a mention as responses show it, or a defect. is_text: as in a cell."""
        try:
            mention.values[name] = attribute.to_json(attribute.load(value, is_text=is_text))
        except ValidationError as error:
            self.reject(f"{mention.prefix}{name}", " ".join(map(str, error.messages)))


class InvalidFile(Exception):
    """A file that cannot be imported, or no further; the message says why and what to do."""


def decoded(source: IO[bytes], encoding: str) -> TextIO:
    """Return the text of a file, all of whose bytes are in the encoding. Raises InvalidFile."""
    decoder, number = codecs.getincrementaldecoder(encoding)(), 0
    try:
        for line in iter(partial(source.readline, _MAX_LINE), b""):
            number += 1
            decoder.decode(line)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        shown = encoding.removesuffix("-sig").upper()
        raise InvalidFile(
            f"not {shown}: byte 0x{error.object[error.start]:02x} in line {number}; save it as CSV "
            "UTF-8, or name its encoding: --encoding cp1252 (Windows, western Europe), or utf-16"
        ) from None
    source.seek(0)
    return TextIOWrapper(source, encoding, newline="")


def _read_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines with their ends. Raises InvalidFile for one that is too long."""
    for number, line in enumerate(iter(partial(file.readline, _MAX_LINE), ""), 1):
        if len(line) == _MAX_LINE:
            raise InvalidFile(f"line {number} is longer than {_MAX_LINE:,} characters")
        yield line


def read_csv(
    file: TextIO,
    resource: ResourceType,
    graph: Graph,
    renamed: Mapping[str, str],
    *,
    replaces: bool = False,
) -> Iterator[Row]:
    """Yield the rows after the header. Raises InvalidFile if a column does not fit.

    renamed: columns by their name in the header, "" for one to leave out. replaces: whether an
    empty cell removes the value, unless it is required.
    """
    lines = _read_lines(file)
    first, skipped = next(lines, ""), 0
    if delimiter := _SEP.fullmatch(first):
        first, skipped = next(lines, ""), 1
    chosen = delimiter[1] if delimiter else _delimiter(first)
    csv.field_size_limit(_MAX_LINE)
    reader = csv.reader(chain([first], lines), delimiter=chosen, strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
    except csv.Error as error:
        raise InvalidFile(f"the header is not CSV: {error}") from None
    columns = _columns(header, resource, graph, renamed)
    while True:
        row = Row(resource.type, line=skipped + reader.line_num + 1)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            read = f"; not read up to line {skipped + reader.line_num}"
            row.reject(None, f"not CSV, is a quote not closed? ({error}){read}")
            yield row
            continue
        if cells is None:
            return
        if any(map(str.strip, cells)):
            _add_cells(row, cells, columns, replaces=replaces)
            yield row


def _delimiter(header: str) -> str:
    """Return the delimiter that divides a header into the most columns."""
    return max(
        _DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter), []))
    )


def _columns(
    header: Sequence[str], resource: ResourceType, graph: Graph, renamed: Mapping[str, str]
) -> list[tuple[str, Column | None]]:
    """Return each name in the header with its column, None for those left out."""
    if not any(header):
        raise InvalidFile("the file has no header")
    if unknown := sorted(renamed.keys() - set(header)):
        raise InvalidFile(f"--map: the file has no column `{unknown[0]}`")
    columns: list[tuple[str, Column | None]] = []
    for shown in header:
        name = renamed.get(shown, shown)
        column = find_column(name, resource, graph)
        if column is None and name:
            raise InvalidFile(
                f"the column `{shown}` does not fit: a {resource.type} has "
                f"{', '.join(_names(resource, graph))}. Choose one of these with --map "
                f"'{shown}=NAME', or leave it out with --map '{shown}='"
            )
        if column and column in [known for _, known in columns]:
            raise InvalidFile(f"the column `{name}` occurs twice")
        if column and column.attribute is None:
            note(f"the column `{name}` is read-only and is not imported")
        columns.append((shown, column))
    return columns


def _names(resource: ResourceType, graph: Graph) -> list[str]:
    """Return the names of the columns that can be imported."""
    targets = {f"{name}.": graph[link.target] for name, link in resource.to_one.items()}
    return [
        f"{prefix}{name}"
        for prefix, resource_type in [("", resource), *targets.items()]
        for name in [ID, *resource_type.attributes]
        if name in {ID, *resource_type.writable}
    ]


def _add_cells(
    row: Row,
    cells: Sequence[str],
    columns: Sequence[tuple[str, Column | None]],
    *,
    replaces: bool,
) -> None:
    """Add the values of cells to a row; an empty one removes a link that has no other value."""
    if len(cells) != len(columns):
        row.reject(None, f"{len(cells)} cells instead of {len(columns)}")
        return
    for (shown, column), cell in zip(columns, cells, strict=True):
        if column is None and not shown and cell.strip():
            row.reject(None, f"{cell.strip()!r} is in a column without a name")
        if column is None or column.attribute is None:
            continue
        text, link = unescaped(cell), column.relationship
        mention: Mention = row
        if link is not None:
            mention = row.links.get(link) or Mention(column.type, prefix=f"{link}.")
            row.links[link] = mention if text or mention.values else None
        if text:
            row.read(mention, column.field, column.attribute, text, is_text=True)
        elif link is None and replaces and column.attribute.required:
            row.reject(column.name, "required: the cell must not be empty")
        elif link is None and column.attribute.nullable:
            row.values[column.field] = None


def read_ndjson(file: TextIO, graph: Graph) -> Iterator[Row]:
    """Yield the rows. Raises InvalidFile for a line that is too long."""
    for number, line in enumerate(_read_lines(file), 1):
        if line.isspace():
            continue
        row = Row("", line=number)
        try:
            _add_document(row, orjson.loads(line), graph)
        except orjson.JSONDecodeError as error:
            row.reject(None, f"not JSON: {error}")
        yield row


def _add_document(row: Row, document: Any, graph: Graph) -> None:
    """Add what a resource object says to its row."""
    types = [resource.type for resource in graph.writable]
    if not isinstance(document, dict) or document.get("type") not in types:
        row.reject("type", f"not a resource object of a type to import: {' or '.join(types)}")
        return
    for name, value in document.items():
        if not isinstance(value, _MEMBERS.get(name, ())):
            row.reject(name, "not a valid member of a resource object")
            return
    row.type, row.lid, resource = document["type"], document.get(LID), graph[document["type"]]
    if document.get(ID) is not None:
        row.values[ID] = document[ID]
    for name, value in document.get("attributes", {}).items():
        attribute = resource.readable.get(name)
        if attribute is None:
            names = ", ".join(resource.attributes)
            row.reject(name, f"a {row.type} has no such attribute; it has {names}")
        elif name not in resource.writable:
            _note_once(f"the attribute `{name}` is read-only and is not imported")
        elif value is None and attribute.nullable:
            row.values[name] = None
        else:
            row.read(row, name, attribute, value, is_text=False)
    _add_links(row, document.get("relationships", {}), resource.to_one)


def _add_links(
    row: Row, relationships: Mapping[str, Any], possible: Mapping[str, Relationship]
) -> None:
    for name, value in relationships.items():
        if name not in possible:
            names = ", ".join(possible) or "none"
            row.reject(name, f"a {row.type} has no such to-one relationship; it has {names}")
            continue
        target, prefix = possible[name].target, f"{name}."
        match value:
            case {"data": None}:
                row.links[name] = None
            case {"data": {"type": type_name, "id": str(id_)}} if type_name == target:
                row.links[name] = Mention(target, {ID: id_}, prefix=prefix)
            case {"data": {"type": type_name, "lid": str(lid)}} if type_name == target:
                row.links[name] = Mention(target, lid=lid, prefix=prefix)
            case _:
                row.reject(name, f"its `data` must be null or name a {target} by `id` or `lid`")
