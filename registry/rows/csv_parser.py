"""CSV as spreadsheets save it, parsed while it arrives: bytes -> records of cells."""

import codecs
import csv
import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from registry.jsonapi.error_types import InvalidFile

_MAX_RECORD = 2**20
"""Characters of a record, as many as the body of another request has bytes."""

csv.field_size_limit(_MAX_RECORD)

_DELIMITERS = ",;\t|"
_SEPARATOR = re.compile(r"sep=(.)[\r\n]*", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")

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


class CsvParser:
    """Parses a file in pieces of any size; what it keeps is less than two records.

    delimiter: known once there is a record. The methods raise InvalidFile.
    """

    def __init__(self, charset: str = "utf-8") -> None:
        self._charset = charset
        # Lone surrogates are reported with the row that has them.
        errors = "surrogatepass" if charset.lower().startswith("utf") else "strict"
        self._decoder = codecs.getincrementaldecoder(_CODECS[charset.lower()])(errors)
        self._rest: list[str] = []  # parts of the last line, which is incomplete
        self._rest_size = 0
        self._lines = deque[str]()
        self._number = 1  # of the first of these lines
        self._is_last = False
        self._awaited = 0  # characters, before a record that was incomplete is read again
        self.delimiter: str | None = None

    def feed(self, piece: bytes, *, is_last: bool = False) -> None:
        """Add bytes; `records` then yields what is complete."""
        try:
            text = self._decoder.decode(piece, is_last)
        except UnicodeDecodeError as error:
            raise self._undecodable(error) from None
        except UnicodeError:  # of UTF-16: the byte order mark is missing
            raise InvalidFile(
                "The file is not UTF-16: it has no byte order mark. Save it as CSV UTF-8, or name "
                f"its encoding, one of {', '.join(CHARSETS)}."
            ) from None
        self._is_last = is_last
        self._awaited -= len(text)
        if is_last or "\n" in text or "\r" in text or (self._rest and self._rest[-1][-1] == "\r"):
            text = "".join([*self._rest, text])
            self._rest.clear()
            self._rest_size = start = 0
            for match in _LINE_END.finditer(text):
                if match.end() == len(text) and match[0] == "\r" and not is_last:
                    break  # its line feed may follow
                self._lines.append(text[start : match.end()])
                start = match.end()
            text = text[start:]
            if is_last and text:
                self._lines.append(text)
                text = ""
        if text:
            self._rest.append(text)
            self._rest_size += len(text)
        if self._rest_size > _MAX_RECORD:
            raise _too_long(self._number + len(self._lines))

    def _undecodable(self, error: UnicodeDecodeError) -> InvalidFile:
        before = error.object[: error.start].count(b"\n")
        line = self._number + len(self._lines) + before
        return InvalidFile(
            f"The file is not {self._charset.upper()}: byte 0x{error.object[error.start]:02x} in "
            f"line {line}. Save it as CSV UTF-8, or name its encoding: `Content-Type: text/csv; "
            f"charset=windows-1252` (Windows, western Europe), or one of {', '.join(CHARSETS)}."
        )

    def records(self) -> Iterator[CsvRecord]:
        """Yield the complete records that have arrived, with those that are empty."""
        if self.delimiter is None and not self._begin():
            return
        assert self.delimiter is not None  # noqa: S101 - for mypy: it has begun
        if self._awaited > 0 and not self._is_last:
            return
        while self._lines:
            taken = list[str]()
            reader = csv.reader(self._take(taken), delimiter=self.delimiter, strict=True)
            while True:
                first = self._number
                try:
                    cells = next(reader, None)
                except csv.Error as error:
                    is_complete = bool(self._lines) or self._is_last
                    size = sum(map(len, taken))
                    if not is_complete and size < _MAX_RECORD:  # the rest has not arrived
                        self._lines.extend(taken)
                        self._awaited = size  # else each piece would be read with all before it
                        return
                    self._number += len(taken)
                    read = f", read up to line {self._number - 1}" if len(taken) > 1 else ""
                    text = f"This is not CSV, is a quote not closed? ({error}{read})"
                    if size > _MAX_RECORD and len(taken) == 1:
                        text = f"The row is longer than {_MAX_RECORD:,} characters."
                    yield CsvRecord(first, [], text)
                    break  # the reader does not continue
                if cells is None:
                    return
                self._number += len(taken)
                taken.clear()
                yield CsvRecord(first, cells)

    def _take(self, taken: list[str]) -> Iterator[str]:
        """Yield the lines, and remember those of the record that is being read."""
        while self._lines:
            line = self._lines.popleft()
            taken.append(line)
            yield line

    def _begin(self) -> bool:
        """Find the delimiter; return whether the lines that tell it have arrived."""
        if len(self._lines) < 2 and not self._is_last:
            return False
        if self._lines and (named := _SEPARATOR.fullmatch(self._lines[0])):
            self._lines.popleft()
            self._number += 1
            self.delimiter = named[1]
            return True
        header = self._lines[0] if self._lines else ""
        if len(header) > _MAX_RECORD:
            raise _too_long(self._number)
        # The one that divides the header into the most columns.
        self.delimiter = max(_DELIMITERS, key=lambda delimiter: _columns(header, delimiter))
        return True


def _too_long(line: int) -> InvalidFile:
    return InvalidFile(f"Line {line} is longer than {_MAX_RECORD:,} characters.")


def _columns(header: str, delimiter: str) -> int:
    return len(next(csv.reader([header], delimiter=delimiter), []))
