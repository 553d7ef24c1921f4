"""What the commands have in common that are clients of a running service."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import NoReturn

from yarl import URL

from registry.commands.output import note, output
from registry.settings import Parser
from registry.transfer.client import Client, OperationsRejected, TransferError, open_client
from registry.transfer.rows import InvalidFile
from registry.transfer.tally import Tally

TOKEN = "REGISTRY_TOKEN"  # noqa: S105 - the name of a variable
_URL, _DEFAULT_URL = "REGISTRY_URL", "http://127.0.0.1:8080"
EPILOG = (
    f"The variable {TOKEN} holds the access token, if the service requires one; SSL_CERT_FILE "
    "names the certificates of a private authority."
)


def add_url(parser: Parser) -> None:
    """Add the option that names the service."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"base URL of the service [{_URL}, default: {_DEFAULT_URL}]",
    )


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


def run(work: Callable[[Client], Awaitable[None]], url: str, tally: Tally) -> NoReturn:
    """Run the work of a command with a client, print the tally, and exit.

    Exit status: 0 if everything is done, 1 if something is not, 2 if a file cannot be read, 130 if
    interrupted.
    """

    async def work_with_client() -> None:
        # Not an option, as others can see those in the list of processes.
        async with open_client(url, os.environ.get(TOKEN)) as client:
            await work(client)

    signal.signal(signal.SIGINT, partial(_interrupt, tally))
    try:
        asyncio.run(work_with_client())
    except InvalidFile as error:
        _fail(f"registry: {error}; {tally}" if tally.counts else f"registry: {error}", 2)
    except OperationsRejected as error:
        _fail(f"registry: the service rejects the data: {error}; {tally}", 1)
    except TransferError as error:
        _fail(f"registry: {error}; {tally}", 1)
    output(str(tally))
    sys.exit(1 if tally.invalid_rows else 0)


def _interrupt(tally: Tally, number: int, _: FrameType | None) -> NoReturn:
    """End the process at once: a thread that waits for standard input would delay an exit."""
    if sys.stderr is not None and sys.stderr.isatty():
        note("")  # ends the line of the progress bar
    note(f"registry: interrupted; {tally}")
    os._exit(128 + number)


def _fail(line: str, status: int) -> NoReturn:
    note(line)
    sys.exit(status)
