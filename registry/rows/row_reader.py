"""The rows of a CSV file: what each says of its own resource, and of related ones."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from marshmallow import ValidationError

from registry.csv_format import Column, find_column, unescaped
from registry.jsonapi.error_objects import ApiError, JsonPointer, quoted
from registry.jsonapi.error_types import (
    InvalidField,
    InvalidFile,
    InvalidParameter,
    invalid_attributes,
)
from registry.jsonapi.row_options import KEY, RowOptions
from registry.model.graph import Graph
from registry.model.implicit_attributes import parse_id
from registry.model.resource_type import Relationship, ResourceType
from registry.rows.csv_parser import CsvParser, CsvRecord

_MAX_VALUE = 100
"""Characters of a value in an error, and of what may be an id."""

_MAX_COLUMNS = 1_000
"""Columns of a file, those without a name included, as spreadsheets save them."""


class RowError:
    """Why a row is invalid. column: as the header names it, None for the whole row."""

    __slots__ = ("column", "error", "line", "value")

    def __init__(
        self, line: int, error: ApiError, column: str | None = None, value: str | None = None
    ) -> None:
        if value is not None and len(value) > _MAX_VALUE:
            value = f"{value[: _MAX_VALUE - 1]}…"
        self.line, self.error, self.column, self.value = line, error, column, value

    def to_object(self) -> dict[str, Any]:
        """Return the error object; its `source` has the line and the column."""
        shown = self.error.to_object("")
        del shown["id"]
        shown["source"] = {"line": self.line}
        if self.column is not None:
            shown["source"]["column"] = self.column
        if self.value is not None:
            shown["meta"] = {"value": self.value.encode("utf-8", "replace").decode()}
        return shown


class Mention:
    """What a row says of a resource.

    relationship: that leads to it; None for the resource of the row itself. sent: the attributes in
    JSON. loaded: their stored forms. fixed: those of read-only attributes, by which it can be
    found. empty: the names of those whose cells are empty, which a new resource has no value of.
    id: as in the file. key: the names of what tells it apart; is_named if it is less than
    all values. position: of the errors about it.
    """

    __slots__ = (
        "empty",
        "fixed",
        "id",
        "is_named",
        "key",
        "loaded",
        "position",
        "relationship",
        "resource",
        "sent",
    )

    def __init__(self, resource: ResourceType, relationship: Relationship | None = None) -> None:
        self.resource, self.relationship = resource, relationship
        self.sent: dict[str, Any] = {}
        self.loaded: dict[str, Any] = {}
        self.fixed: dict[str, Any] = {}
        self.empty: list[str] = []
        self.id: str | None = None
        self.key: tuple[str, ...] = ()
        self.is_named = False
        self.position = JsonPointer()

    @property
    def link(self) -> str | None:
        """The name of the relationship, None for the resource of the row itself."""
        return self.relationship.name if self.relationship else None

    def stored(self, name: str) -> Any:
        """Return the stored form of an attribute, or the id; None without a value."""
        if name == "id":
            return None if self.id is None else parse_id(self.id)
        return self.loaded.get(name, self.fixed.get(name))


class Row:
    """A row. line: its first one in the file. links: related resources, None to remove a link."""

    __slots__ = ("errors", "line", "links", "own")

    def __init__(self, line: int, own: Mention) -> None:
        self.line, self.own = line, own
        self.links: dict[str, Mention | None] = {}
        self.errors: list[RowError] = []

    @property
    def mentions(self) -> Iterator[Mention]:
        """The resource of the row, and the related ones."""
        return chain([self.own], (linked for linked in self.links.values() if linked))


class _HeaderColumn(NamedTuple):
    """A column of a file. number: of its cells. header: its name there."""

    number: int
    header: str
    column: Column


class RowReader:
    """Reads the rows of a file that arrives in pieces.

    The methods raise InvalidFile, or InvalidParameter for options that do not fit the header.
    ignored: the columns that are read-only, and left out. linked: the types that columns lead to.
    """

    def __init__(
        self, resource: ResourceType, graph: Graph, options: RowOptions, charset: str
    ) -> None:
        self._resource, self._graph, self._options = resource, graph, options
        self._parser = CsvParser(charset)
        self._width: int | None = None  # the columns of the header, once it was read
        self._columns: list[_HeaderColumn] = []
        self._unnamed: list[int] = []
        self.ignored: list[str] = []

    @property
    def has_header(self) -> bool:
        """Whether the header was read."""
        return self._width is not None

    @property
    def linked(self) -> list[ResourceType]:
        """The types of the related resources that columns have attributes of."""
        types = (each.column.type for each in self._columns if each.column.relationship)
        return [self._graph[name] for name in dict.fromkeys(types)]

    def column_name(self, relationship: str | None, name: str) -> str:
        """Return how the header names a column; its usual name if the file has none."""
        column = self._find_column(relationship, name)
        if column is not None:
            return column.header
        return f"{relationship}.{name}" if relationship else name

    def _find_column(self, relationship: str | None, name: str) -> _HeaderColumn | None:
        for each in self._columns:
            if each.column.relationship == relationship and each.column.field == name:
                return each
        return None

    def feed(self, piece: bytes, *, is_last: bool = False) -> None:
        """Add bytes of the file."""
        self._parser.feed(piece, is_last=is_last)

    def rows(self) -> Iterator[Row | None]:
        """Yield the rows that have arrived, None for an empty one; the first call reads the header.

        What is kept of an invalid row are its errors.
        """
        for record in self._parser.records():
            if self._width is None:
                self._read_header(record)
            elif record.defect or any(map(str.strip, record.cells)):
                row = self._row(record)
                if row.errors:
                    row.own, row.links = Mention(self._resource), {}
                yield row
            else:
                yield None

    def _read_header(self, record: CsvRecord) -> None:
        """Find the columns."""
        header = _header_in(record)
        renamed = self._options.renamed
        if unknown := [name for name in renamed if name not in header]:
            detail = f"The file has no column {quoted(unknown[0])}."
            raise InvalidParameter(detail, parameter=f"rows[map][{unknown[0]}]")
        known = set[str]()
        for index, shown in enumerate(header):
            name = renamed.get(shown, shown)
            column = find_column(name, self._resource, self._graph)
            if column is None and name:
                raise InvalidFile(
                    f"The column {quoted(shown)} does not fit: a `{self._resource.type}` has "
                    f"{quoted(*self._names())}. Rename it, or leave it out, by "
                    "`rows[map][COLUMN]`."
                )
            if column is None:
                if not shown:
                    self._unnamed.append(index)
                continue
            if name in known:
                raise InvalidFile(f"The column {quoted(name)} occurs twice.")
            known.add(name)
            if column.attribute is None:
                self.ignored.append(shown)
            else:
                self._columns.append(_HeaderColumn(index, shown, column))
        self._check_keys()
        self._width = len(header)

    def _check_keys(self) -> None:
        for type_name, names in self._options.keys.items():
            present = {each.column.field for each in self._columns if each.column.type == type_name}
            if missing := [name for name in names if name not in present]:
                detail = f"The file has no column of a `{type_name}` for {quoted(*missing)}."
                raise InvalidParameter(detail, parameter=KEY)

    def _names(self) -> list[str]:
        """Return the names of the columns that can be imported."""
        resource, graph = self._resource, self._graph
        targets = {f"{name}.": graph[link.target] for name, link in resource.to_one.items()}
        return [
            f"{prefix}{name}"
            for prefix, resource_type in [("", resource), *targets.items()]
            for name in ["id", *resource_type.attributes]
            if name == "id" or name in resource_type.writable
        ]

    def _row(self, record: CsvRecord) -> Row:
        row = Row(record.line, Mention(self._resource))
        cells = record.cells
        if record.defect or len(cells) != self._width:
            reason = record.defect or f"The row has {len(cells)} cells instead of {self._width}."
            row.errors.append(RowError(row.line, InvalidField(reason)))
            return row
        for index in self._unnamed:
            if text := cells[index].strip():
                detail = "There is a value in a column without a name."
                row.errors.append(RowError(row.line, InvalidField(detail), value=text))
                break
        for each in self._columns:
            self._read(row, each, unescaped(cells[each.number]))
        for mention in row.mentions:
            self._load(row, mention, cells)
            mention.key, mention.is_named = self._key(mention)
        if len(row.errors) > 1:
            headers = [each.header for each in self._columns]
            row.errors.sort(key=lambda each: headers.index(each.column) if each.column else -1)
        return row

    def _read(self, row: Row, header: _HeaderColumn, text: str) -> None:
        """Add the value of a cell."""
        column = header.column
        mention = self._mention(row, column, text)
        if mention is None:
            return
        if not text:
            self._read_empty(row, header)
        elif column.field == "id":
            if mention is not row.own or self._uses_ids:
                mention.id = text[:_MAX_VALUE]
        else:
            self._read_value(row, mention, header, text)

    def _mention(self, row: Row, column: Column, text: str) -> Mention | None:
        """Return the resource that a cell says something of; None for an empty cell of a link."""
        link = column.relationship
        if link is None:
            return row.own
        if not text:
            if self._options.replaces:
                row.links.setdefault(link, None)
            return None
        mention = row.links.get(link)
        if mention is None:
            mention = Mention(self._graph[column.type], self._resource.to_one[link])
            row.links[link] = mention
        return mention

    def _read_empty(self, row: Row, header: _HeaderColumn) -> None:
        name = header.column.field
        attribute = self._resource.writable.get(name)
        if attribute is None:
            return
        if self._options.replaces and attribute.required:
            detail = "It is required: the cell must not be empty."
            row.errors.append(RowError(row.line, InvalidField(detail), header.header))
        elif attribute.nullable:
            row.own.empty.append(name)
            if self._options.replaces:
                row.own.sent[name] = None

    def _read_value(self, row: Row, mention: Mention, header: _HeaderColumn, text: str) -> None:
        name, attribute = header.column.field, header.column.attribute
        assert attribute is not None  # noqa: S101 - for mypy: others are left out
        try:
            value = attribute.from_cell(
                text, has_decimal_comma=self._parser.delimiter in {";", "\t"}
            )
            if attribute.is_writable:
                mention.sent[name] = value
            else:
                mention.fixed[name] = attribute.load(value)
        except ValidationError as error:
            detail = " ".join(map(str, error.messages))
            row.errors.append(RowError(row.line, InvalidField(detail), header.header, text))

    @property
    def _uses_ids(self) -> bool:
        """Whether ids tell the resources of rows apart; otherwise they are those of elsewhere."""
        names = self._options.keys.get(self._resource.type)
        return not self._options.creates and (names is None or "id" in names)

    def _load(self, row: Row, mention: Mention, cells: Sequence[str]) -> None:
        """Validate the attributes of a mention."""
        if not mention.sent:
            return
        try:
            mention.loaded = mention.resource.load(mention.sent, partial=True)
        except ValidationError as error:
            for name, messages in error.messages_dict.items():
                found = self._find_column(mention.link, name)
                value = None if found is None else unescaped(cells[found.number])
                column = None if found is None else found.header
                defects = {name: messages}
                for defect in invalid_attributes(mention.resource, defects, mention.position):
                    row.errors.append(RowError(row.line, defect, column, value))

    def _key(self, mention: Mention) -> tuple[tuple[str, ...], bool]:
        """Return the names of what tells a resource apart, and whether they are not all.

        Named, its id, unique, an address; or all values, also where what is named is empty. None
        for a new one.
        """
        resource = mention.resource
        if mention.relationship is None and self._options.creates:
            return (), False
        present = [*mention.sent, *mention.fixed]
        named = present + [name for name in mention.empty if name not in mention.sent]
        names = self._options.keys.get(resource.type, ())
        if not names and mention.id is not None:
            names = ("id",)
        if not names:
            unique = [name for name in named if name in resource.unique]
            addresses = [name for name in named if resource.readable[name].kind.ignores_case]
            names = tuple([*unique, *addresses][:1])
        if names and any(mention.stored(name) is not None or name == "id" for name in names):
            return names, True
        return tuple(sorted(named)), bool(names)


def _header_in(record: CsvRecord) -> list[str]:
    """Return the names of the columns. Raises InvalidFile."""
    if record.defect:
        raise InvalidFile(f"Line {record.line}, the header: {record.defect}")
    header = [cell.strip().removeprefix("\ufeff") for cell in record.cells]
    if not any(header):
        raise InvalidFile("The file has no header.")
    if len(header) > _MAX_COLUMNS:
        raise InvalidFile(f"The file has {len(header):,} columns, more than {_MAX_COLUMNS:,}.")
    return header
