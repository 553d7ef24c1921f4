"""The command line: fills a running registry over HTTP with generated data or a CSV file.

Exit status: 0 if everything was created, 1 if something was not, 2 for invalid usage or an
unreadable file, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import aiohttp
from tqdm import tqdm
from yarl import URL

from seeding.client import TIMEOUT_SECONDS, Client, SeedError
from seeding.csv_file import COLUMNS, InvalidHeaderError, load
from seeding.generator import GeneratorOptions, generate
from seeding.tally import Tally


async def seed(options: argparse.Namespace, tally: Tally) -> None:
    """Load the CSV file or generate data; raise SeedError, or OSError if the file is unreadable."""
    # Not an option, as others can see those in the list of processes.
    token = os.environ.get("REGISTRY_TOKEN")
    session = aiohttp.ClientSession(
        base_url=f"{options.url}/",
        headers={"Authorization": f"Bearer {token}"} if token else {},
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
    )
    total = None if options.csv else options.persons + options.computers
    async with session:
        # disable=None: shows the bar only on a terminal.
        with tqdm(total=total, disable=None, leave=False) as bar:
            if options.csv:
                await load(Client(session, tally), options.csv, tally, bar)
            else:
                generated = GeneratorOptions(options.persons, options.computers, options.seed)
                await generate(Client(session, tally), generated, bar)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid count")
    return int(text)


def _url(text: str) -> str:
    try:
        url = URL(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host or url.query_string or url.fragment:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a base URL such as http://127.0.0.1:8080"
        )
    return text.rstrip("/")


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line; exit with status 2 if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="scripts/seed",
        description="Fill a running registry with persons and their computers.",
        epilog="The variable REGISTRY_TOKEN holds the access token, if the registry requires one.",
    )
    parser.add_argument(
        "--url",
        type=_url,
        default="http://127.0.0.1:8080",
        help="URL of the registry (%(default)s)",
    )
    parser.add_argument("--persons", type=_count, help="number to create (100)")
    parser.add_argument("--computers", type=_count, help="number to create (3 per person)")
    parser.add_argument(
        "--seed", type=int, help="the same seed and counts produce the same data (1)"
    )
    parser.add_argument(
        "--csv", type=Path, help=f"file to load instead, with the columns {','.join(COLUMNS)}"
    )
    options = parser.parse_args(arguments)
    generated = (options.persons, options.computers, options.seed)
    if options.csv and generated != (None, None, None):
        parser.error("--csv cannot be combined with --persons, --computers or --seed")
    if options.persons is None:
        options.persons = 100
    if options.computers is None:
        options.computers = 3 * options.persons
    if options.seed is None:
        options.seed = 1
    return options


def main() -> int:
    """Run the command line; return the exit status."""
    options, tally = parse_options(), Tally()
    try:
        asyncio.run(seed(options, tally))
    except InvalidHeaderError as error:
        print(f"{options.csv}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{options.csv}: {error.strerror}; {tally}", file=sys.stderr)
        return 2
    except SeedError as error:
        print(f"{error}; {tally}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted; {tally}", file=sys.stderr)
        return 130
    print(tally)
    return 1 if tally.invalid_rows else 0


if __name__ == "__main__":
    sys.exit(main())
