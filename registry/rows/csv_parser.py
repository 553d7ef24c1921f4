"""CSV as spreadsheets save it, parsed while it arrives: bytes -> records of cells."""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import NamedTuple

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidFile, UnsupportedMediaType

_MAX_RECORD = 2**20
"""Characters of a record, as many as the body of another request has bytes."""

csv.field_size_limit(_MAX_RECORD)

_DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r'sep=([^"\r\n])[\r\n]*', re.IGNORECASE)

_CODECS = {
    "utf-8": "utf-8-sig",
    "utf8": "utf-8-sig",
    "us-ascii": "utf-8-sig",
    "windows-1252": "cp1252",
    "cp1252": "cp1252",
    "iso-8859-1": "iso-8859-1",
    "latin1": "iso-8859-1",
    "utf-16": "utf-16",
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
}

_CHARSETS = ("utf-8", "windows-1252", "iso-8859-1", "utf-16")
"""The documented names of those encodings, as `charset` has them."""


class CsvRecord(NamedTuple):
    """A record. line: its first one, from 1. cells: of the record. defect: why it has none."""

    line: int
    cells: list[str]
    defect: str | None = None


class CsvParser:
    """Parses a file in pieces; what it keeps is less than two records.

    Each piece reads an incomplete record again from its beginning: small ones would take long.
    charset: as the media type names it; raises UnsupportedMediaType. delimiter: known once there is
    a record.
    """

    def __init__(self, charset: str) -> None:
        if charset.lower() not in _CODECS:
            detail = f"Unsupported charset {quoted(charset)}; supported: {quoted(*_CHARSETS)}."
            raise UnsupportedMediaType(detail)
        self._charset = charset
        # Lone surrogates are reported with the row that has them.
        errors = "surrogatepass" if charset.lower().startswith("utf") else "strict"
        self._decoder = codecs.getincrementaldecoder(_CODECS[charset.lower()])(errors)
        self._rest = ""  # of the last line, which is incomplete
        self._lines: list[str] = []  # the complete ones of a record that is not
        self._number = 1  # of the first of these lines
        self.delimiter: str | None = None

    def parse(self, piece: bytes, *, is_last: bool = False) -> Iterator[CsvRecord]:
        """Yield the records that are complete with this piece, also empty ones.

        Raises InvalidFile.
        """
        self._split(self._rest + self._decode(piece, is_last=is_last), is_last=is_last)
        if self.delimiter is None:
            if len(self._lines) < 2 and not is_last:
                return
            self.delimiter = self._find_delimiter()
        lines, start = self._lines, 0
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        while start < len(lines):
            cells, defect = list[str](), None
            try:
                cells = next(reader)
            except csv.Error as error:
                taken = lines[start : reader.line_num]
                is_short = sum(map(len, taken)) < _MAX_RECORD
                if is_short and reader.line_num == len(lines) and not is_last:
                    break  # the rest has not arrived
                defect = self._describe(error, start, taken)
            yield CsvRecord(self._number + start, cells, defect)
            start = reader.line_num
        self._number += start
        self._lines = lines[start:]

    def _decode(self, piece: bytes, *, is_last: bool) -> str:
        try:
            return self._decoder.decode(piece, is_last)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].count(b"\n")
            line = self._number + len(self._lines) + before
            raise InvalidFile(
                f"The file is not {self._charset.upper()}: byte 0x{error.object[error.start]:02x} "
                f"in line {line}. Save it as CSV UTF-8, or name its encoding: `Content-Type: "
                "text/csv; charset=windows-1252` (Windows, western Europe), or one of "
                f"{', '.join(_CHARSETS)}."
            ) from None
        except UnicodeError:  # of UTF-16: the byte order mark is missing
            raise InvalidFile(
                "The file is not UTF-16: it has no byte order mark. Save it as CSV UTF-8, or name "
                f"its encoding, one of {', '.join(_CHARSETS)}."
            ) from None

    def _split(self, text: str, *, is_last: bool) -> None:
        """Add the lines of a text; keep the last one if its end has not arrived."""
        lines = StringIO(text, newline="").readlines()  # at "\n", "\r" and "\r\n"
        is_complete = is_last or text.endswith("\n")  # a line feed may follow "\r"
        self._rest = lines.pop() if lines and not is_complete else ""
        self._lines += lines
        if len(self._rest) > _MAX_RECORD:
            raise _too_long(self._number + len(self._lines))

    def _find_delimiter(self) -> str:
        """Return the delimiter that the first line names, or that divides it into most columns."""
        lines = self._lines
        if lines:  # UTF-16 of a named byte order keeps the mark
            lines[0] = lines[0].removeprefix("\ufeff")
        header = lines[0] if lines else ""
        if named := _SEPARATOR.fullmatch(header):
            del lines[0]
            self._number += 1
            return named[1]
        if len(header) > _MAX_RECORD:
            raise _too_long(self._number)
        return max(
            _DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter)))
        )

    def _describe(self, error: csv.Error, start: int, taken: Sequence[str]) -> str:
        """Return why some lines are not a record. start: how many precede them here."""
        if len(taken) == 1 and len(taken[0]) > _MAX_RECORD:
            return f"The row is longer than {_MAX_RECORD:,} characters."
        last = self._number + start + len(taken) - 1
        read = f", read up to line {last}" if len(taken) > 1 else ""
        return f"This is not CSV, is a quote not closed? ({error}{read})"


def _too_long(line: int) -> InvalidFile:
    return InvalidFile(f"Line {line} is longer than {_MAX_RECORD:,} characters.")
