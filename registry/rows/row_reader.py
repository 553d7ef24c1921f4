"""The rows of a CSV file: what each says of its own resource, and of related ones."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from marshmallow import ValidationError

from registry.csv_format import Column, find_column, unescaped
from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidField, InvalidFile, InvalidParameter
from registry.jsonapi.row_options import KEY, RowOptions
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.rows.csv_parser import CsvParser, CsvRecord
from registry.rows.rows import InvalidRow, Mention, Row, RowError, shortened

_MAX_COLUMNS = 1_000
"""Columns of a file, those without a name included, as spreadsheets save them."""

_MAX_ID = 100
"""Characters of what may be an id."""


class _HeaderColumn(NamedTuple):
    """A column of a file. number: of its cells. header: its name there."""

    number: int
    header: str
    column: Column


class RowReader:
    """Reads the rows of a file that arrives in pieces.

    ignored: the columns that are read-only, and left out.
    """

    def __init__(
        self, resource: ResourceType, graph: Graph, options: RowOptions, charset: str
    ) -> None:
        self._resource, self._graph, self._options = resource, graph, options
        self._parser = CsvParser(charset)
        self._width: int | None = None  # the columns of the header, once it was read
        self._columns = defaultdict[str | None, list[_HeaderColumn]](list)  # by relationship
        self._unnamed: list[int] = []
        self.ignored: list[str] = []

    @property
    def has_header(self) -> bool:
        """Whether the header was read."""
        return self._width is not None

    @property
    def linked(self) -> list[ResourceType]:
        """The types of the related resources that columns have attributes of."""
        return [self._type_of(link) for link in self._columns if link]

    def error_object(self, row: Row, error: RowError) -> dict[str, Any]:
        """Return an error of a row; its `source` has the line, and the column as in the header."""
        shown = error.error.to_object("")
        del shown["id"]
        shown["source"] = {"line": row.line}
        if error.name is not None:
            column, usual = self._column_of(error), ".".join(filter(None, [error.link, error.name]))
            shown["source"]["column"] = column.header if column else usual
        if error.value is not None:
            shown["meta"] = {"value": error.value.encode("utf-8", "replace").decode()}
        return shown

    def _column_of(self, error: RowError) -> _HeaderColumn | None:
        columns = self._columns.get(error.link, ())
        return next((each for each in columns if each.column.field == error.name), None)

    def _position_of(self, error: RowError) -> int:
        column = self._column_of(error)
        return column.number if column else -1

    def _type_of(self, link: str | None) -> ResourceType:
        return self._graph[self._resource.to_one[link].target] if link else self._resource

    def read(self, piece: bytes, *, is_last: bool = False) -> Iterator[Row | None]:
        """Yield the rows that are complete with this piece of the file, None for an empty one.

        What is kept of an invalid row are its errors. Raises InvalidFile, or InvalidParameter for
        options that do not fit the header.
        """
        for record in self._parser.parse(piece, is_last=is_last):
            if self._width is None:
                self._read_header(record)
            elif record.defect or any(map(str.strip, record.cells)):
                row = self._row(record)
                if row.errors:
                    row.errors.sort(key=self._position_of)
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
            if not name:
                self._unnamed += [] if shown else [index]
                continue
            column = find_column(name, self._resource, self._graph)
            if column is None:
                raise InvalidFile(
                    f"The column {quoted(shown)} does not fit: a `{self._resource.type}` has "
                    f"{quoted(*self._names())}. Rename it, or leave it out, by "
                    "`rows[map][COLUMN]`."
                )
            if name in known:
                raise InvalidFile(f"The column {quoted(name)} occurs twice.")
            known.add(name)
            if column.attribute is None:
                self.ignored.append(shown)
            else:
                self._columns[column.relationship].append(_HeaderColumn(index, shown, column))
        self._check_keys()
        self._width = len(header)

    def _check_keys(self) -> None:
        columns = [each.column for some in self._columns.values() for each in some]
        for type_name, names in self._options.keys.items():
            present = {column.field for column in columns if column.type == type_name}
            if missing := [name for name in names if name not in present]:
                detail = f"The file has no column of a `{type_name}` for {quoted(*missing)}."
                raise InvalidParameter(detail, parameter=KEY)

    def _names(self) -> list[str]:
        """Return the names of the columns that can be imported."""
        ends = [("", self._resource)]
        ends += [(f"{link}.", self._type_of(link)) for link in self._resource.to_one]
        return [
            f"{prefix}{name}"
            for prefix, resource in ends
            for name in ["id", *resource.attributes]
            if name == "id" or name in resource.writable
        ]

    def _row(self, record: CsvRecord) -> Row:
        row, cells = Row(record.line, Mention(self._resource)), record.cells
        if record.defect or len(cells) != self._width:
            reason = record.defect or f"The row has {len(cells)} cells instead of {self._width}."
            row.errors.append(RowError(InvalidField(reason)))
            return row
        if stray := next(filter(str.strip, [cells[index] for index in self._unnamed]), None):
            nameless = InvalidField("There is a value in a column without a name.")
            row.errors.append(RowError(nameless, value=shortened(stray.strip())))
        for link, columns in self._columns.items():
            texts = [unescaped(cells[each.number]) for each in columns]
            if link is None:
                mention = row.own
            elif any(texts):
                mention = row.links[link] = Mention(self._type_of(link), link)
            else:
                if self._options.replaces:
                    row.links[link] = None
                continue
            for each, text in zip(columns, texts, strict=True):
                try:
                    self._read(mention, each.column, text)
                except InvalidRow as invalid:
                    row.errors += invalid.errors
            try:
                mention.load()
                self._find_key(mention)
            except InvalidRow as invalid:
                row.errors += invalid.errors
        return row

    def _read(self, mention: Mention, column: Column, text: str) -> None:
        """Add the value of a cell. Raises InvalidRow."""
        name, attribute = column.field, column.attribute
        assert attribute is not None  # noqa: S101 - for mypy: others are left out
        if not text:
            if mention.link is None:
                self._read_empty(mention, name)
        elif name == "id":
            if mention.link is not None or self._uses_ids:
                mention.id = text[:_MAX_ID]
        else:
            has_comma = self._parser.delimiter in {";", "\t"}
            try:
                value = attribute.from_cell(text, has_decimal_comma=has_comma)
                if attribute.is_writable:
                    mention.sent[name] = value
                else:
                    mention.fixed[name] = attribute.load(value)
            except ValidationError as error:
                reason = " ".join(map(str, error.messages))
                raise InvalidRow(mention.error(reason, name, text)) from None

    def _read_empty(self, mention: Mention, name: str) -> None:
        """Take an empty cell of the resource of the row. Raises InvalidRow."""
        attribute = mention.resource.writable.get(name)
        if attribute is None:
            return
        if self._options.replaces and attribute.required:
            raise InvalidRow(mention.error("It is required: the cell must not be empty.", name))
        if attribute.nullable:
            mention.empty.append(name)
            if self._options.replaces:
                mention.sent[name] = None

    @property
    def _uses_ids(self) -> bool:
        """Whether ids tell the resources of rows apart; otherwise they are those of elsewhere."""
        names = self._options.keys.get(self._resource.type)
        return not self._options.creates and (names is None or "id" in names)

    def _find_key(self, mention: Mention) -> None:
        """Determine what tells a resource apart; nothing does if it is new.

        What was chosen, its id, something unique, or an address; or all values, also where these
        are empty. Raises InvalidRow for a related resource with an id, but no value of what was
        chosen.
        """
        if mention.link is None and self._options.creates:
            return
        resource = mention.resource
        absent = (name for name in mention.empty if name not in mention.sent)
        present = [*mention.sent, *mention.fixed, *absent]
        names: Sequence[str] = self._options.keys.get(resource.type, ())
        if not names and mention.id is not None:
            names = ("id",)
        if not names:
            unique = [name for name in present if name in resource.unique]
            addresses = [name for name in present if resource.readable[name].kind.ignores_case]
            names = [*unique, *addresses][:1]
        mention.is_named = bool(names)
        if not any(name == "id" or mention.stored(name) is not None for name in names):
            if mention.link and mention.id is not None and not present:
                raise InvalidRow(
                    mention.error("It is a key: the cell must not be empty.", names[0])
                )
            names = sorted(present)
        mention.key = tuple(names)


def _header_in(record: CsvRecord) -> list[str]:
    """Return the names of the columns. Raises InvalidFile."""
    if record.defect:
        raise InvalidFile(f"Line {record.line}, the header: {record.defect}")
    header = [cell.strip() for cell in record.cells]
    if not any(header):
        raise InvalidFile("The file has no header.")
    try:
        "".join(header).encode()
    except UnicodeEncodeError:  # reports have the names of columns
        raise InvalidFile("The header has lone surrogates, which are not valid Unicode.") from None
    if len(header) > _MAX_COLUMNS:
        raise InvalidFile(f"The file has {len(header):,} columns, more than {_MAX_COLUMNS:,}.")
    return header
