"""CSV as spreadsheets save it, parsed while it arrives: bytes -> records of cells."""

import codecs
import csv
import re
from collections import deque
from collections.abc import Iterator
from io import StringIO
from typing import NamedTuple, Self

from registry.jsonapi.error_types import InvalidFile

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

CHARSETS = ("utf-8", "windows-1252", "iso-8859-1", "utf-16")
"""The documented names of those encodings, as `charset` has them."""


class CsvRecord(NamedTuple):
    """A record. line: its first one, from 1. cells: of the record. defect: why it has none."""

    line: int
    cells: list[str]
    defect: str | None = None


def is_charset(name: str) -> bool:
    """Return whether files in an encoding can be read."""
    return name.lower() in _CODECS


class _Lines:
    """The lines that have arrived, for the reader of the library, which may run out of them.

    taken: those that it has read of the present record.
    """

    def __init__(self) -> None:
        self.waiting = deque[str]()
        self.taken: list[str] = []

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if not self.waiting:
            raise StopIteration
        self.taken.append(self.waiting.popleft())
        return self.taken[-1]


class CsvParser:
    """Parses a file in pieces; what it keeps is less than two records.

    Each piece reads an incomplete record again from its beginning: small ones would take long.
    delimiter: known once there is a record.
    """

    def __init__(self, charset: str = "utf-8") -> None:
        self._charset = charset
        # Lone surrogates are reported with the row that has them.
        errors = "surrogatepass" if charset.lower().startswith("utf") else "strict"
        self._decoder = codecs.getincrementaldecoder(_CODECS[charset.lower()])(errors)
        self._rest = ""  # of the last line, which is incomplete
        self._lines = _Lines()
        self._number = 1  # of the first line of the next record
        self.delimiter: str | None = None

    def parse(self, piece: bytes, *, is_last: bool = False) -> Iterator[CsvRecord]:
        """Yield the records that are complete with this piece, also empty ones.

        Raises InvalidFile.
        """
        self._split(self._rest + self._decode(piece, is_last=is_last), is_last=is_last)
        if self.delimiter is None:
            if len(self._lines.waiting) < 2 and not is_last:
                return
            self.delimiter = self._find_delimiter()
        lines = self._lines
        reader = csv.reader(lines, delimiter=self.delimiter, strict=True)
        while lines.waiting:
            cells, defect = list[str](), None
            try:
                cells = next(reader)
            except csv.Error as error:
                is_short = sum(map(len, lines.taken)) < _MAX_RECORD
                if is_short and not lines.waiting and not is_last:  # the rest has not arrived
                    lines.waiting.extend(lines.taken)
                    lines.taken.clear()
                    return
                defect = self._describe(error)
            yield CsvRecord(self._number, cells, defect)
            self._number += len(lines.taken)
            lines.taken.clear()

    def _decode(self, piece: bytes, *, is_last: bool) -> str:
        try:
            return self._decoder.decode(piece, is_last)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].count(b"\n")
            line = self._number + len(self._lines.waiting) + before
            raise InvalidFile(
                f"The file is not {self._charset.upper()}: byte 0x{error.object[error.start]:02x} "
                f"in line {line}. Save it as CSV UTF-8, or name its encoding: `Content-Type: "
                "text/csv; charset=windows-1252` (Windows, western Europe), or one of "
                f"{', '.join(CHARSETS)}."
            ) from None
        except UnicodeError:  # of UTF-16: the byte order mark is missing
            raise InvalidFile(
                "The file is not UTF-16: it has no byte order mark. Save it as CSV UTF-8, or name "
                f"its encoding, one of {', '.join(CHARSETS)}."
            ) from None

    def _split(self, text: str, *, is_last: bool) -> None:
        """Add the lines of a text; keep the last one if its end has not arrived."""
        lines = StringIO(text, newline="").readlines()  # at "\n", "\r" and "\r\n"
        is_complete = is_last or text.endswith("\n")  # a line feed may follow "\r"
        self._rest = lines.pop() if lines and not is_complete else ""
        self._lines.waiting += lines
        if len(self._rest) > _MAX_RECORD:
            raise _too_long(self._number + len(self._lines.waiting))

    def _find_delimiter(self) -> str:
        """Return the delimiter that the first line names, or that divides it into most columns."""
        lines = self._lines.waiting
        if lines:  # UTF-16 of a named byte order keeps the mark
            lines[0] = lines[0].removeprefix("\ufeff")
        header = lines[0] if lines else ""
        if named := _SEPARATOR.fullmatch(header):
            lines.popleft()
            self._number += 1
            return named[1]
        if len(header) > _MAX_RECORD:
            raise _too_long(self._number)
        return max(
            _DELIMITERS, key=lambda delimiter: len(next(csv.reader([header], delimiter=delimiter)))
        )

    def _describe(self, error: csv.Error) -> str:
        """Return why the lines that were taken are not a record."""
        taken = self._lines.taken
        if len(taken) == 1 and len(taken[0]) > _MAX_RECORD:
            return f"The row is longer than {_MAX_RECORD:,} characters."
        read = f", read up to line {self._number + len(taken) - 1}" if len(taken) > 1 else ""
        return f"This is not CSV, is a quote not closed? ({error}{read})"


def _too_long(line: int) -> InvalidFile:
    return InvalidFile(f"Line {line} is longer than {_MAX_RECORD:,} characters.")
