"""The lines of a file, of bounded length, which can be pushed back."""

from collections import deque
from collections.abc import Iterable
from typing import TextIO

from registry.transfer.rows import InvalidFile

MAX_ROW = 2**23
"""Characters per row, in one line or more: thousands of the longest serials."""

TOO_LONG_REASON = f"longer than {MAX_ROW:,} characters"


class TooLong:
    """Stands for a line longer than MAX_ROW, which is skipped."""


TOO_LONG = TooLong()

_UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")
"""The byte order marks of UTF-16, as bytes that are not UTF-8 are decoded."""


class Lines:
    """The lines of a text file, one after another; a long one is not read into memory.

    file: opened with `newline=""` and `errors="surrogateescape"`. Raises InvalidFile if it is
    UTF-16.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._pushed_back: deque[str | TooLong] = deque()
        first = self.read()
        if isinstance(first, str) and first.startswith(_UTF_16):
            raise InvalidFile("the file is UTF-16: save it as UTF-8")
        self.push_back([first])

    def read(self) -> str | TooLong:
        """Return the next line with its end, TOO_LONG for one that is skipped, "" at the end."""
        if self._pushed_back:
            return self._pushed_back.popleft()
        line = self._file.readline(MAX_ROW)
        if len(line) < MAX_ROW or line.endswith(("\n", "\r")):
            return line
        while line and not line.endswith(("\n", "\r")):
            line = self._file.readline(MAX_ROW)
        return TOO_LONG

    def push_back(self, lines: Iterable[str | TooLong]) -> None:
        """Make lines that were read the next ones again."""
        self._pushed_back.extendleft(reversed(list(lines)))


def encoding_defect(text: str) -> str | None:
    """Return what is wrong with a text whose invalid bytes were decoded to surrogates, if it is."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        return f"not UTF-8: byte 0x{byte:02x} at character {error.start + 1}"
    return None
