"""The rows of a CSV file: what each says of its own resource, and of related ones."""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from marshmallow import ValidationError

from registry.csv_format import Column, find_column, unescaped
from registry.jsonapi.error_objects import ApiError, ErrorCollector, RequestError, quoted
from registry.jsonapi.error_types import InvalidField, InvalidFile, InvalidParameter
from registry.jsonapi.row_options import KEY, RowOptions
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.rows.csv_parser import CsvParser, CsvRecord
from registry.rows.rows import Mention, Row

_MAX_COLUMNS = 1_000
"""Columns of a file, those without a name included, as spreadsheets save them."""

_MAX_ID = 100
"""Characters of what may be an id."""

_MAX_VALUE = 100
"""Characters of a value in an error."""


class _HeaderColumn(NamedTuple):
    """A column of a file. number: of its cells. header: its name there."""

    number: int
    header: str
    column: Column


class RowReader:
    """Reads the rows of a file that arrives in pieces.

    ignored: the columns that are read-only, and left out. linked: the types of the related
    resources that columns have attributes of, by relationship.
    """

    def __init__(
        self, resource: ResourceType, graph: Graph, options: RowOptions, charset: str
    ) -> None:
        self._resource, self._graph, self._options = resource, graph, options
        self._parser = CsvParser(charset)
        self._width: int | None = None  # the columns of the header, once it was read
        self._columns: dict[tuple[str | None, str], _HeaderColumn] = {}  # by link and attribute
        self._unnamed: list[int] = []
        self._has_rows = False
        self.ignored: list[str] = []
        self.linked: dict[str, ResourceType] = {}

    def report(self, row: Row, errors: Sequence[ApiError]) -> list[dict[str, Any]]:
        """Return the error objects of a row, in the order of its columns.

        errors: with pointers as a Mention has them. In their place, `source` has the line, and the
        column as the header names it.
        """
        return [shown for _, shown in sorted(self._shown(row, errors), key=itemgetter(0))]

    def _shown(self, row: Row, errors: Sequence[ApiError]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the number of the column of each error, and its object."""
        for error in errors:
            place, _, name = (error.pointer or "").partition("/attributes/")
            link = place[1:].partition("/")[2] or None
            column = self._columns.get((link, name))
            shown = error.to_object() | {"source": {"line": row.line}}
            if name:
                usual = f"{link}.{name}" if link else name
                shown["source"]["column"] = column.header if column else usual
                mention = row.links.get(link) if link else row.own
                if mention and (value := mention.text(name)) is not None:
                    shown.setdefault("meta", _value(value))
            yield column.number if column else -1, shown

    def read(self, piece: bytes, *, is_last: bool = False) -> Iterator[Row | None]:
        """Yield the rows that are complete with this piece of the file, None for an empty one.

        Raises InvalidFile, also for a file without rows, or InvalidParameter for options that do
        not fit the header.
        """
        for record in self._parser.parse(piece, is_last=is_last):
            if self._width is None:
                self._read_header(record)
            elif record.defect or any(map(str.strip, record.cells)):
                self._has_rows = True
                yield self._row(record)
            else:
                yield None
        if is_last and not self._has_rows:
            raise InvalidFile("The file has no rows." if self._width else "The file is empty.")

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
                link = column.relationship
                self._columns[link, column.field] = _HeaderColumn(index, shown, column)
                if link:
                    self.linked[link] = self._graph[column.type]
        self._check_keys()
        self._width = len(header)

    def _check_keys(self) -> None:
        for type_name, names in self._options.keys.items():
            columns = (each.column for each in self._columns.values())
            present = {column.field for column in columns if column.type == type_name}
            if missing := [name for name in names if name not in present]:
                detail = f"The file has no column of a `{type_name}` for {quoted(*missing)}."
                raise InvalidParameter(detail, parameter=KEY)

    def _names(self) -> list[str]:
        """Return the names of the columns that can be imported."""
        ends = [("", self._resource)]
        ends += [
            (f"{name}.", self._graph[link.target]) for name, link in self._resource.to_one.items()
        ]
        return [
            f"{prefix}{name}"
            for prefix, resource in ends
            for name in ["id", *resource.attributes]
            if name == "id" or name in resource.writable
        ]

    def _row(self, record: CsvRecord) -> Row:
        row = Row(record.line, Mention(self._resource, record.line))
        try:
            if record.defect or len(record.cells) != self._width:
                reason = f"The row has {len(record.cells)} cells instead of {self._width}."
                raise InvalidField(record.defect or reason)
            self._read_cells(row, record.cells)
        except RequestError as error:
            own = Mention(self._resource, row.line)
            return Row(row.line, own, errors=self.report(row, error.errors))
        return row

    def _read_cells(self, row: Row, cells: Sequence[str]) -> None:
        """Take what the cells say. Raises RequestError."""
        errors = ErrorCollector()
        if stray := next(filter(str.strip, [cells[index] for index in self._unnamed]), None):
            nameless = "There is a value in a column without a name."
            errors.add(_of_cell(InvalidField(nameless), stray.strip()))
        if self._options.replaces:
            row.links = dict.fromkeys(self.linked)
        for number, _, column in self._columns.values():
            text, link = unescaped(cells[number]), column.relationship
            if link and text and not row.links.get(link):
                row.links[link] = Mention(self.linked[link], row.line, link)
            mention = row.links.get(link) if link else row.own
            if mention is None:
                continue
            self._read(mention, column, text, errors)
        for mention in row.mentions:
            with errors:
                mention.load(removes=self._options.replaces)
                self._find_key(mention)
        errors.raise_any()

    def _read(self, mention: Mention, column: Column, text: str, errors: ErrorCollector) -> None:
        """Add the value of a cell, or an error."""
        name, attribute = column.field, column.attribute
        assert attribute is not None  # noqa: S101 - for mypy: others are left out
        if not text:
            if mention.link is None:
                self._read_empty(mention, name, errors)
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
                errors.add(_of_cell(mention.error(reason, name), text))

    def _read_empty(self, mention: Mention, name: str, errors: ErrorCollector) -> None:
        """Take an empty cell of the resource of the row, or add an error."""
        attribute = mention.resource.writable.get(name)
        if attribute is None:
            return
        if self._options.replaces and attribute.required:
            errors.add(mention.error("It is required: the cell must not be empty.", name))
        elif attribute.nullable:
            mention.sent[name] = None

    @property
    def _uses_ids(self) -> bool:
        """Whether ids tell the resources of rows apart; otherwise they are those of elsewhere."""
        names = self._options.keys.get(self._resource.type)
        return not self._options.creates and (names is None or "id" in names)

    def _find_key(self, mention: Mention) -> None:
        """Determine what tells a resource apart; nothing does if it is new.

        What was chosen, its id, something unique, or an address; or all values, also where these
        are empty. Raises InvalidField for a related resource with an id, but no value of what was
        chosen.
        """
        if mention.link is None and self._options.creates:
            return
        resource = mention.resource
        # Those with values come first.
        present = sorted([*mention.sent, *mention.fixed], key=lambda name: not mention.text(name))
        names: Sequence[str] = self._options.keys.get(resource.type, ())
        if not names and mention.id is not None:
            names = ("id",)
        if not names:
            unique = [name for name in present if name in resource.unique]
            addresses = [name for name in present if resource.readable[name].kind.ignores_case]
            names = [*unique, *addresses][:1]
        mention.is_named = bool(names)
        if all(mention.text(name) is None for name in names):
            if mention.link and mention.id is not None and not present:
                raise mention.error("It is a key: the cell must not be empty.", names[0])
            names = sorted(present)
        mention.key = tuple(names)


def _of_cell(error: InvalidField, text: str) -> InvalidField:
    """Return an error with the value of a cell that is not part of a Mention."""
    error.meta = _value(text)
    return error


def _value(text: str) -> Mapping[str, str]:
    shown = text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"
    return {"value": shown.encode("utf-8", "replace").decode()}


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
