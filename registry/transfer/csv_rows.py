"""CSV files: a row per person, with the serials of the person's computers in one column.

The header names the columns, in any order: first_name, last_name, email and serials. Serials are
separated by semicolons; one that has semicolons, or spaces around it, is in double quotes, as in
CSV. An empty email is null. A row without a person has computers without an owner. If the serials
begin with a semicolon, the row has more computers of the person of the row before. An apostrophe
before what a spreadsheet would take for a formula is not part of the value.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from registry.transfer.lines import MAX_ROW, TOO_LONG_REASON, Lines, TooLong, encoding_defect
from registry.transfer.rows import (
    PERSON_ATTRIBUTES,
    SERIAL,
    SERIALS,
    Attributes,
    InvalidFile,
    InvalidRow,
    Row,
    counted,
)

COLUMNS = (*PERSON_ATTRIBUTES, SERIALS)

_NAMES = {"first_name", "last_name"}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_FORMULA = r"(?:\A|[;\n\r])\"*{}(?='*[=+\-@\t\n\r\0\uff1d\uff0b\uff0d\uff20])"
"""Where a formula begins, after the apostrophe in place of {} if it is escaped.

That is at the start of a cell, and after semicolons and line ends, at which some spreadsheets
divide it. Further apostrophes are part of the value.
"""
_UNESCAPED, _ESCAPED = re.compile(_FORMULA.format("")), re.compile(_FORMULA.format("'"))
_SERIAL = re.compile(r'\s*(?:"(?P<quoted>[^"]*(?:""[^"]*)*)"\s*|(?P<plain>[^";\s][^;]*)?)(?:;|\Z)')


class _RowTooLong(Exception):
    """A row exceeds MAX_ROW."""


def read_csv(file: TextIO) -> Iterator[Row | InvalidRow]:
    """Yield the rows after the header.

    file: as `Lines` takes it. Raises InvalidFile if it is UTF-16 or its header is not valid.
    """
    csv.field_size_limit(MAX_ROW)  # of the whole process: by default 128 KiB, too few serials
    rows = _split_rows(Lines(file))
    _, header = next(rows, (1, []))
    if isinstance(header, str):
        raise InvalidFile(f"the header is {header}")
    if defect := _header_defect(header):
        raise InvalidFile(defect)
    for line, fields in rows:
        if isinstance(fields, str):
            yield InvalidRow(line, fields)
            continue
        try:
            yield _parse_row(line, header, fields)
        except ValueError as error:
            yield InvalidRow(line, str(error))


def write_csv_header(columns: Sequence[str], file: TextIO) -> None:
    """Write the names of the columns."""
    csv.writer(file).writerow(columns)


def write_csv(rows: Iterable[Row], columns: Sequence[str], file: TextIO) -> None:
    """Write the rows, of which only these columns. file: opened with `newline=""`."""
    csv.writer(file).writerows(_fields(row, columns) for row in rows)


def _fields(row: Row, columns: Sequence[str]) -> list[Any]:
    values = dict(row.person or {})
    serials = (each[SERIAL] for each in row.computers if each.get(SERIAL) is not None)
    cells = [_quoted(str(serial)) for serial in serials]
    values[SERIALS] = ";".join(["", *cells] if row.continues else cells)
    return [_escaped(values.get(column)) for column in columns]


def _escaped(value: Any) -> Any:
    """Return the value of a cell, with an apostrophe before what would be a formula."""
    return _UNESCAPED.sub(r"\g<0>'", value) if isinstance(value, str) else value


def _unescaped(cell: str) -> str:
    return _ESCAPED.sub(lambda found: found[0][:-1], cell)


def _quoted(serial: str) -> str:
    if ";" not in serial and serial[:1] != '"' and serial == serial.strip():
        return serial
    return '"' + serial.replace('"', '""') + '"'


def _split_rows(lines: Lines) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the number of the line on which each row starts, and its fields or what is wrong.

    An unclosed quote swallows the rows after it. Reading therefore resumes on the line after the
    one on which the invalid row starts; the size limit of a row bounds what is read again.
    """
    consumed: list[str | TooLong] = []

    def consume() -> Iterator[str]:
        size = 0
        while line := lines.read():
            consumed.append(line)
            if isinstance(line, TooLong) or (size := size + len(line)) > MAX_ROW:
                is_quoted = len(consumed) > 1
                unclosed = "a quote that opens in this row is not closed, or the row is "
                raise _RowTooLong(unclosed * is_quoted + TOO_LONG_REASON)
            yield line

    number = 1
    while True:
        consumed.clear()
        try:
            fields = next(csv.reader(consume(), strict=True), None)
        except (csv.Error, _RowTooLong) as error:
            yield number, _syntax_error(error)
            lines.push_back(consumed[1:])
            number += 1
            continue
        if fields is None:
            return
        if len(fields) > 1 or "".join(fields).strip():
            yield number, fields
        number += len(consumed)


def _header_defect(header: list[str]) -> str | None:
    """Return why the fields are not a valid header, None if they are."""
    if not header:
        return "the file is empty"
    if len(header) == 1:
        for separator, name in _SEPARATORS.items():
            if _is_header(header[0].split(separator)):
                return f"the columns are separated by {name}: separate them by commas"
    if _is_header(header):
        return None
    actual = ascii(",".join(header[: len(COLUMNS) + 1])[:100])
    if repeated := sorted({name for name in COLUMNS if header.count(name) > 1}):
        return f"the column {repeated[0]} occurs twice in the header {actual}"
    size = f" ({counted(len(header), 'column')})" if len(header) > len(COLUMNS) else ""
    return (
        "the header must have first_name and last_name, and may have email and serials, "
        f"or only serials, but is {actual}{size}"
    )


def _is_header(header: list[str]) -> bool:
    names = set(header)
    is_complete = names >= _NAMES or names == {SERIALS}
    return is_complete and names <= set(COLUMNS) and len(names) == len(header)


def _parse_row(line: int, header: list[str], fields: list[str]) -> Row:
    """Return the row. Raises ValueError with what is wrong with it."""
    if len(fields) != len(header):
        raise ValueError(f"{counted(len(fields), 'column')} instead of {len(header)}")
    for name, value in zip(header, fields, strict=True):
        if not value.isascii() and (defect := encoding_defect(value)):
            raise ValueError(f"{name} is {defect}")
    values = dict(zip(header, map(_unescaped, fields), strict=True))
    serials = values.pop(SERIALS, "")
    computers = [{SERIAL: serial} for serial in _serials(serials)]
    continues = serials.lstrip().startswith(";")
    if any(values.values()):
        return Row(_person(values), computers, line, continues)
    if not computers:
        raise ValueError("neither a person nor serials")
    if continues:
        raise ValueError("continues a row, but has no person")
    return Row(None, computers, line)


def _person(values: dict[str, str]) -> Attributes:
    return {name: value if value or name in _NAMES else None for name, value in values.items()}


def _serials(text: str) -> list[str]:
    """Return the serials of a cell. Raises ValueError if a quote is not closed at a semicolon."""
    if '"' not in text:
        return [serial for part in text.split(";") if (serial := part.strip())]
    serials, start = [], 0
    while start < len(text):
        match = _SERIAL.match(text, start)
        if match is None:
            raise ValueError(f"serials: a quote is not closed in {text[start:][:40]!a}")
        quoted, plain = match["quoted"], match["plain"]
        if quoted is not None:
            serials.append(quoted.replace('""', '"'))
        elif plain and (serial := plain.strip()):
            serials.append(serial)
        start = match.end()
    return serials


def _syntax_error(error: csv.Error | _RowTooLong) -> str:
    reason = str(error)
    if reason == "unexpected end of data":
        reason = "a quote that opens in this row is not closed before the end of the file"
    return reason if isinstance(error, _RowTooLong) else f"not CSV: {reason}"
