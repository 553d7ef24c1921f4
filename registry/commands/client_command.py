"""What the commands have in common that are clients of a running service."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import PurePath
from types import FrameType
from typing import NoReturn

from yarl import URL

from registry.commands.output import note, output
from registry.installation import program
from registry.settings import Parser
from registry.transfer.client import TOKEN_VARIABLE, Client, TransferError, open_client
from registry.transfer.progress import Tally
from registry.transfer.rows import InvalidFile

CSV, NDJSON = "csv", "ndjson"
_SUFFIXES = {".csv": CSV, ".ndjson": NDJSON, ".jsonl": NDJSON}
_URL, _DEFAULT_URL = "REGISTRY_URL", "http://127.0.0.1:8080"
EPILOG = (
    f"The variable {TOKEN_VARIABLE} holds the access token, if the service requires one; "
    "SSL_CERT_FILE names the certificates of a private authority."
)


def client_parser(command: str, description: str, arguments: str = "[OPTIONS]") -> Parser:
    """Return the parser of a command, with the option that names the service."""
    parser = Parser(
        prog=f"{program()} {command}",
        usage=f"%(prog)s {arguments}",
        description=description,
        epilog=EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"base URL of the service [{_URL}, default: {_DEFAULT_URL}]",
    )
    return parser


def url_of(parser: Parser, parsed: argparse.Namespace) -> str:
    """Return the base URL in the option, else in the variable, without a slash at the end."""
    source, text = "--url", parsed.url
    if text is None:
        source, text = _URL, os.environ.get(_URL) or _DEFAULT_URL
    url: str = parser.parse_value(source, text, _parse_url)
    return url


def _parse_url(text: str) -> str:
    url = URL(text)
    if url.scheme not in {"http", "https"} or not url.host or url.query_string or url.fragment:
        raise ValueError(f"{text!r} is not a base URL such as {_DEFAULT_URL}")
    return text.rstrip("/")


def add_format(parser: Parser) -> None:
    """Add the option for the format of a file."""
    parser.add_argument(
        "--format",
        choices=(CSV, NDJSON),
        help="format of the file [default: that of its name, otherwise csv]",
    )


def format_of(parsed: argparse.Namespace) -> str:
    """Return the format: of the option, else of the suffix of the file, else CSV."""
    return parsed.format or _SUFFIXES.get(PurePath(parsed.file).suffix.lower(), CSV)


def run(work: Callable[[Client], Awaitable[None]], tally: Tally) -> NoReturn:
    """Run the work of a command with a client of the tally's URL, print the tally, and exit.

    Exit status: 0 if everything is done, 1 if something is not, 2 if a file cannot be read, 130 if
    interrupted.
    """

    async def work_with_client() -> None:
        # Not an option, as others can see those in the list of processes.
        async with open_client(tally.url, os.environ.get(TOKEN_VARIABLE)) as client:
            await work(client)

    signal.signal(signal.SIGINT, partial(_interrupt, tally))
    try:
        asyncio.run(work_with_client())
    except (InvalidFile, TransferError) as error:
        note(f"registry: {error}{f'; {tally}' if tally.counts else ''}")
        sys.exit(2 if isinstance(error, InvalidFile) else 1)
    output(str(tally))
    sys.exit(1 if tally.invalid_rows else 0)


def _interrupt(tally: Tally, number: int, _: FrameType | None) -> NoReturn:
    """End the process at once: a thread that waits for standard input would delay an exit."""
    if sys.stderr is not None and sys.stderr.isatty():
        note("")  # ends the line of the progress bar
    note(f"registry: interrupted; {tally}; the same command continues")
    os._exit(128 + number)
