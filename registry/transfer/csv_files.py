"""CSV files as spreadsheets write and read them, in the format of `csv_format`."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TextIO

from registry.csv_format import Column, find_column, unescaped
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.program import note
from registry.transfer.rows import ID, MAX_LINE, InvalidFile, Mention, Row, read_lines

_DELIMITERS = ",;\t|"
_SEP = re.compile(r"sep=(.)\r?\n?", re.IGNORECASE)

_UNNAMED = Column("", None, "", "", None)


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
    lines = read_lines(file)
    first = next(lines, "")
    delimiter = _SEP.fullmatch(first)
    skipped = 1 if delimiter else 0
    if delimiter:
        first = next(lines, "")
    chosen = delimiter[1] if delimiter else _delimiter(first)
    csv.field_size_limit(MAX_LINE)
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
            last = skipped + reader.line_num
            extent = f"; not read up to line {last}" if last > row.line else ""
            row.reject(None, f"not CSV, is a quote not closed? ({error}){extent}")
            yield row
            continue
        if cells is None:
            return
        if any(map(str.strip, cells)):
            _fill(row, cells, columns, replaces=replaces)
            yield row


def _delimiter(header: str) -> str:
    """Return the delimiter that divides a header into the most columns."""
    return max(_DELIMITERS, key=lambda one: len(next(csv.reader([header], delimiter=one), [])))


def _columns(
    header: Sequence[str], resource: ResourceType, graph: Graph, renamed: Mapping[str, str]
) -> list[Column | None]:
    """Return the column of each name in the header, None for those left out."""
    if not any(header):
        raise InvalidFile("the file has no header")
    if unknown := sorted(renamed.keys() - set(header)):
        raise InvalidFile(f"--map: the file has no column `{unknown[0]}`")
    columns: list[Column | None] = []
    for shown in header:
        name = renamed.get(shown, shown)
        column = find_column(name, resource, graph)
        if not shown and not name:  # cells below it must be empty
            column = _UNNAMED
        elif column is None and name:
            raise InvalidFile(
                f"the column `{shown}` does not fit: a {resource.type} has "
                f"{', '.join(_names(resource, graph))}. Name the one it is with --map "
                f"'{shown}=NAME', or leave it out with --map '{shown}='"
            )
        elif column and column in columns:
            raise InvalidFile(f"the column `{name}` occurs twice")
        elif column and column.attribute is None:
            note(f"the column `{name}` is read-only and is not imported")
        columns.append(column)
    return columns


def _names(resource: ResourceType, graph: Graph) -> list[str]:
    """Return the names of the columns that can be imported."""
    names = [name for name in resource.attributes if name in resource.writable]
    for name, link in resource.to_one.items():
        target = graph[link.target]
        fields = [ID, *(one for one in target.attributes if one in target.writable)]
        names += [f"{name}.{one}" for one in fields]
    return [ID, *names]


def _fill(
    row: Row, cells: Sequence[str], columns: Sequence[Column | None], *, replaces: bool
) -> None:
    """Add the values of cells to a row; an empty one removes a link that has no other value."""
    if len(cells) != len(columns):
        row.reject(None, f"{len(cells)} cells instead of {len(columns)}")
        return
    for column, cell in zip(columns, cells, strict=True):
        if column is _UNNAMED and cell.strip():
            row.reject(None, f"{cell.strip()!r} is in a column without a name")
        if column is None or column.attribute is None:
            continue
        text, link = unescaped(cell), column.relationship
        mention: Mention = row
        if link is not None:
            mention = row.links.setdefault(link, None) or Mention(column.type, prefix=f"{link}.")
            row.links[link] = mention if text else row.links[link]
        if text:
            row.read(mention, column.field, column.attribute, text, is_text=True)
        elif link is None and replaces and column.attribute.required:
            row.reject(column.name, "required: the cell must not be empty")
        elif link is None and column.attribute.nullable:
            row.values[column.field] = None
        if column.field == ID and mention.values.pop(ID, None) is not None:
            mention.id = text
