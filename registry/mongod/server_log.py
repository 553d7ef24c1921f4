"""The log of mongod: kept over restarts, bounded, and searched for the reason of a failure."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from registry.program import new_file, open_private, program

_MAX_BYTES = 16 * 2**20

_FORMAT = re.compile(r"version(?:: \"| value ')(\d+\.\d+)")
"""The format in the errors of mongod: that of the stored document, or, from 8.0, of its version."""

_LATER_FILES = re.compile("unsupported WiredTiger|Version incompatibility detected")
"""How WiredTiger, which stores the files, says that a later version has written them."""

_WRONG_VERSION = 20573
_BUILD_INFO = 23403
"""Ids of log entries."""


class Log:
    """A file that a program appends to; its older contents are kept in another file.

    Raises OSError if it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.file = open_private(path)
        self._start = 0
        self.rotate_if_full()

    def __str__(self) -> str:
        return self.file.name

    def begin(self) -> None:
        """Note that a program starts: `first_error` considers what it writes from now on."""
        self._start = self.file.seek(0, os.SEEK_END)

    def first_error(self) -> str | None:
        """Return the first error of mongod, or of the program that failed to start it."""
        for line, entry in self._lines():
            if "s" not in entry:
                return line
            if entry["s"] in {"E", "F"}:
                return _error_message(entry)
        return None

    def version_conflict(self) -> str | None:
        """Return why mongod cannot open data of another version; None if it failed otherwise."""
        mongod = "0.0"
        for _, entry in self._lines():
            attributes = entry.get("attr", {})
            if entry.get("id") == _BUILD_INFO:
                mongod = attributes["buildInfo"]["version"]
            elif entry.get("id") == _WRONG_VERSION and (
                found := _FORMAT.search(attributes["error"])
            ):
                return (
                    f"mongod {mongod} cannot open data in the format of MongoDB {found[1]}: choose "
                    f"mongod {found[1]} with --mongod; `{program()} upgrade` raises the format for "
                    "the next version"
                )
            elif _LATER_FILES.search(str(attributes.get("message"))):
                return f"a MongoDB later than {mongod} wrote the data: choose it with --mongod"
        return None

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the lines since the start, each with its entry; {} for those of other programs."""
        self.file.seek(self._start)
        for line in self.file:
            entry = None
            with suppress(ValueError):
                entry = json.loads(line)
            yield line.decode(errors="replace").strip(), entry if isinstance(entry, dict) else {}

    def rotate_if_full(self) -> None:
        """Move the contents to another file if they exceed the limit.

        mongod keeps its file open, so it is copied and then truncated. If the disk is full, the
        old contents are dropped instead of kept.
        """
        if os.fstat(self.file.fileno()).st_size < _MAX_BYTES:
            return
        with suppress(OSError), new_file(Path(f"{self}.1"), replaces=True) as old:
            self.file.seek(0)
            shutil.copyfileobj(self.file, old)
        self.file.truncate(0)
        self._start = 0


def _error_message(entry: object) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    members = ("msg", "attr", "error", "message", "errmsg", "error_str")
    return ": ".join(_error_message(entry[name]) for name in members if name in entry)
