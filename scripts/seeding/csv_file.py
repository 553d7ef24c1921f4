"""CSV files.

A file is UTF-8 with a header that names first_name, last_name, email and serials, in any order.
Serials are separated by semicolons; email and serials may be empty. An invalid row is reported on
stderr with the number of its first line and skipped as a whole; all other rows are loaded.
"""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from seeding.client import Client, InvalidResourceError, SeedError
from seeding.parallel import in_parallel
from seeding.tally import Tally, counted

COLUMNS = ("first_name", "last_name", "email", "serials")


class InvalidHeaderError(SeedError):
    """The CSV file does not start with the header described above."""


def split_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield the number of the line on which each row starts, and its fields or a syntax error.

    An unclosed quote swallows the rows after it. Reading therefore resumes on the line after the
    one on which the invalid row starts; the size limit of a field bounds what is read again.
    """
    pushed_back: deque[str] = deque()
    consumed: list[str] = []

    def consume() -> Iterator[str]:
        while line := pushed_back.popleft() if pushed_back else next(lines, ""):
            consumed.append(line)
            yield line

    number = 1
    while True:
        consumed.clear()
        try:
            fields = next(csv.reader(consume(), strict=True), None)
        except csv.Error as error:
            yield number, error
            pushed_back.extendleft(reversed(consumed[1:]))
            number += 1
            continue
        if fields is None:
            return
        if len(fields) > 1 or "".join(fields).strip():
            yield number, fields
        number += len(consumed)


def read_rows(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, str] | InvalidResourceError]]:
    """Yield the line number of each row after the header, and its values by column or an error.

    Raises InvalidHeaderError if the file does not start with the header.
    """
    rows = split_rows(lines)
    _, header = next(rows, (1, []))
    if isinstance(header, csv.Error) or sorted(header) != sorted(COLUMNS):
        actual = header if isinstance(header, csv.Error) else ascii(",".join(header))[:100]
        raise InvalidHeaderError(f"the header must be {','.join(COLUMNS)} but is {actual}")
    for line, fields in rows:
        if isinstance(fields, csv.Error):
            yield line, InvalidResourceError(f"not CSV: {fields}")
        elif len(fields) != len(COLUMNS):
            columns = counted(len(fields), "column")
            yield line, InvalidResourceError(f"{columns} instead of {len(COLUMNS)}")
        elif not _is_utf8(fields):
            yield line, InvalidResourceError("not UTF-8")
        else:
            yield line, dict(zip(header, fields, strict=True))


def _is_utf8(fields: list[str]) -> bool:
    try:
        "".join(fields).encode()
    except UnicodeEncodeError:
        return False
    return True


async def load_row(client: Client, values: dict[str, str]) -> None:
    """Create the person of a row and their computers; if any of them is invalid, create nothing."""
    serials = [serial for part in values["serials"].split(";") if (serial := part.strip())]
    attributes = {name: values[name] for name in ("first_name", "last_name")}
    if values["email"]:
        attributes["email"] = values["email"]
    await client.create_owner(attributes, serials)


async def load(client: Client, path: Path, tally: Tally, bar: tqdm[NoReturn]) -> None:
    """Create what the rows of the CSV file describe; report invalid rows on stderr."""

    async def load_or_report(row: tuple[int, dict[str, str] | InvalidResourceError]) -> None:
        line, values = row
        tally.lines_in_progress.add(line)
        try:
            if isinstance(values, InvalidResourceError):
                raise values
            await load_row(client, values)
        except InvalidResourceError as error:
            tally.invalid_rows += 1
            tqdm.write(f"line {line}: {error}", file=sys.stderr)
        tally.lines_in_progress.remove(line)

    # Bytes that are not UTF-8 become surrogates, so that they invalidate only their own row.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        await in_parallel(read_rows(file), load_or_report, bar)
