"""The command `import`: creates or updates what the rows of a file describe."""

import argparse
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TextIO

from registry.commands.client_command import EPILOG, add_url, run, url_of
from registry.commands.file_format import CSV, add_format, format_of
from registry.installation import program
from registry.settings import Parser
from registry.transfer.client import Client
from registry.transfer.csv_rows import read_csv
from registry.transfer.importer import Importer, ImportOptions
from registry.transfer.ndjson_rows import read_ndjson
from registry.transfer.rows import InvalidFile, InvalidRow, Row
from registry.transfer.tally import Effect, Tally

_DESCRIPTION = (
    "Create the persons and computers of a CSV or NDJSON file in a running service. An invalid row "
    "is reported with its line number and skipped as a whole; all other rows are stored."
)


def main(arguments: Sequence[str]) -> None:
    """Run the command; exit with status 1 if it fails, with 2 if the arguments are wrong."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    url = url_of(parser, parsed)
    tally = Tally(tuple(Effect) if parsed.match else (Effect.CREATED,), is_dry=parsed.dry_run)
    run(partial(_import, parsed=parsed, tally=tally), url, tally)


def _parser() -> Parser:
    parser = Parser(
        prog=f"{program()} import",
        usage="%(prog)s [OPTIONS] FILE",
        description=_DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
    )
    add_url(parser)
    add_format(parser)
    parser.add_argument(
        "--match",
        action="store_true",
        help="update persons with the same e-mail address and computers with the same serial",
    )
    parser.add_argument("--dry-run", action="store_true", help="check and report, store nothing")
    parser.add_argument("file", metavar="FILE", help="the file to read, or - for standard input")
    return parser


async def _import(client: Client, parsed: argparse.Namespace, tally: Tally) -> None:
    # Imported late: loading it takes longer than to report wrong arguments.
    from registry.transfer.progress import shown_progress  # noqa: PLC0415

    importer = Importer(client, tally, ImportOptions(parsed.match, parsed.dry_run))
    with _opened(parsed.file) as file:
        status = os.fstat(file.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        with shown_progress("rows", size, is_bytes=size is not None) as progress:
            position = 0
            async with aclosing(importer.run(_rows(file, parsed))) as results:
                async for result in results:
                    for invalid in result.invalid:
                        progress.note(str(invalid))
                    before, position = position, file.buffer.tell() if size is not None else 0
                    progress.add(result.rows, None if size is None else position - before)


def _opened(name: str) -> TextIO:
    """Return a file, or standard input. Raises InvalidFile with its name."""
    with _errors_of(name):
        if name == "-" and sys.stdin is None:
            raise InvalidFile("standard input is closed")
        # Bytes that are not UTF-8 become surrogates, so that they invalidate only their own row.
        return open(
            sys.stdin.fileno() if name == "-" else name,
            encoding="utf-8-sig",
            errors="surrogateescape",
            newline="",
            closefd=name != "-",
        )


def _rows(file: TextIO, parsed: argparse.Namespace) -> Iterator[Row | InvalidRow]:
    """Yield the rows of a file in the format of the options. Raises InvalidFile with its name."""
    read = read_csv if format_of(parsed) == CSV else read_ndjson
    with _errors_of(parsed.file):
        yield from read(file)


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Report errors as those of the file with this name."""
    try:
        yield
    except InvalidFile as error:
        raise InvalidFile(f"{name}: {error}") from None
    except OSError as error:
        raise InvalidFile(f"{name}: {error.strerror}") from error
