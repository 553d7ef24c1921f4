"""Fill a running registry over HTTP with generated data or with the rows of a CSV file.

Generated data: the same seed and counts produce the same names, e-mail addresses, serials and
owners. Ids differ, because the service assigns them in the order in which requests arrive.

A CSV file is UTF-8 with a header that names first_name, last_name, email and serials, in any
order. Serials are separated by semicolons; e-mail and serials may be empty. An invalid row is
reported on stderr with the line on which it starts, and nothing of it is stored; all other rows
are.

Exit status: 0 if everything was created, 1 if something was not, 2 for invalid usage or an
unreadable file, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import aiohttp
from faker import Faker
from tqdm import tqdm
from yarl import URL

Item = TypeVar("Item")

CONCURRENCY = 16  # requests in flight; enough to keep the service busy
TIMEOUT_SECONDS = 30
COLUMNS = ("first_name", "last_name", "email", "serials")
JSON_API = "application/vnd.api+json"
ATOMIC = f'{JSON_API}; ext="https://jsonapi.org/ext/atomic"'
SUCCESS = {200, 201}
INVALID = {400, 413, 422}  # statuses for a resource that the service will never accept
SHARE_WITH_EMAIL = 0.9
SHARE_OWNED = 0.9


class SeedError(Exception):
    """The run cannot continue; the message says why in one line."""


class InvalidHeaderError(SeedError):
    """The CSV file does not start with the header described above."""


class InvalidResourceError(SeedError):
    """A person or computer is invalid; each argument describes one error."""

    def __str__(self) -> str:
        return "; ".join(self.args)


@dataclass
class Tally:
    """Counts of what was created and skipped; only confirmed creations count."""

    persons: int = 0
    computers: int = 0
    owned: int = 0
    invalid_rows: int = 0
    lines_in_progress: set[int] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        text = (
            f"created {_plural(self.persons, 'person')} and {_plural(self.computers, 'computer')}, "
            f"{self.owned} of them with an owner, in {time.monotonic() - self.started:.1f} s"
        )
        if self.invalid_rows:
            text += f"; skipped {_plural(self.invalid_rows, 'invalid row')}"
        if self.lines_in_progress:
            text += f"; rows from line {min(self.lines_in_progress)} on may be missing"
        return text


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Service:
    """The part of the registry's API that seeding needs.

    Requests are not retried, because one without a response may have been carried out. The methods
    raise InvalidResourceError if the service rejects the resource, SeedError if it fails.
    """

    def __init__(self, session: aiohttp.ClientSession, tally: Tally) -> None:
        self._session = session
        self._tally = tally

    async def create_person(self, attributes: dict[str, str]) -> str:
        """Create a person and return its id."""
        identifier = await self._create("persons", {"type": "person", "attributes": attributes})
        self._tally.persons += 1
        return identifier

    async def create_computer(self, serial: str, owner: str | None) -> None:
        """Create a computer owned by the person with the id `owner`, or without an owner."""
        identifier = None if owner is None else {"type": "person", "id": owner}
        await self._create("computers", _computer(serial, identifier))
        self._tally.computers += 1
        self._tally.owned += owner is not None

    async def create_owner(self, attributes: dict[str, str], serials: list[str]) -> None:
        """Create a person and the computers that it owns: all of them, or none."""
        owner = {"type": "person", "lid": "owner"}
        resources = [
            owner | {"attributes": attributes},
            *(_computer(serial, owner) for serial in serials),
        ]
        operations = [{"op": "add", "data": resource} for resource in resources]
        await self._send("operations", {"atomic:operations": operations}, ATOMIC)
        self._tally.persons += 1
        self._tally.computers += len(serials)
        self._tally.owned += len(serials)

    async def _create(self, path: str, resource: dict[str, Any]) -> str:
        body = await self._send(path, {"data": resource}, JSON_API)
        try:
            return str(json.loads(body)["data"]["id"])
        except (ValueError, LookupError, TypeError):
            raise SeedError(f"not a registry: no id in the response to POST /{path}") from None

    async def _send(self, path: str, document: dict[str, Any], media_type: str) -> bytes:
        try:
            async with self._session.post(
                path, json=document, headers={"Content-Type": media_type}, allow_redirects=False
            ) as response:
                body = await response.read()
        except TimeoutError:
            raise SeedError(f"no response from the service within {TIMEOUT_SECONDS} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = " ".join(str(error).split())
            raise SeedError(
                f"cannot reach the service (is it running, is --url correct?): {reason}"
            ) from None
        if response.status not in SUCCESS:
            _raise_error(response, body)
        return body


def _computer(serial: str, owner: dict[str, str] | None) -> dict[str, Any]:
    """Return the resource object of a computer; owner: the identifier of a person."""
    resource: dict[str, Any] = {"type": "computer", "attributes": {"serial": serial}}
    return resource if owner is None else resource | {"relationships": {"owner": {"data": owner}}}


def _raise_error(response: aiohttp.ClientResponse, body: bytes) -> NoReturn:
    try:
        details = [_detail(error) for error in json.loads(body)["errors"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        details = []
    if details and response.status in INVALID:
        raise InvalidResourceError(*details)
    status = f"{response.status} {response.reason}"
    raise SeedError(": ".join([f"POST {response.url} failed with {status}", *details]))


def _detail(error: dict[str, Any]) -> str:
    attribute = error.get("source", {}).get("pointer", "").rpartition("/")[2]
    return f"{attribute}: {error['detail']}" if attribute else str(error["detail"])


async def in_parallel(
    items: Iterable[Item], process: Callable[[Item], Awaitable[None]], bar: tqdm[NoReturn]
) -> None:
    """Process the items, CONCURRENCY at a time, consuming them lazily.

    The first exception stops further items. It is raised once the items in progress are finished,
    because the service may still carry out a cancelled request, which would not be counted.
    """
    source = iter(items)
    failed = False

    async def worker() -> None:
        nonlocal failed
        for item in source:
            try:
                await process(item)
            except Exception:
                failed = True
                raise
            bar.update()
            if failed:
                return

    workers = (worker() for _ in range(CONCURRENCY))
    for error in await asyncio.gather(*workers, return_exceptions=True):
        if error is not None:
            raise error


def people(faker: Faker, count: int) -> Iterator[dict[str, str]]:
    """Yield the attributes of persons, some of them without an e-mail address."""
    namesakes: Counter[str] = Counter()
    for _ in range(count):
        first_name, last_name = faker.first_name(), faker.last_name()
        person = {"first_name": first_name, "last_name": last_name}
        if faker.random.random() < SHARE_WITH_EMAIL:
            name = f"{first_name}.{last_name}".lower()
            namesakes[name] += 1
            suffix = namesakes[name] if namesakes[name] > 1 else ""
            domain = faker.random.choice(("example.org", "example.com", "example.net"))
            person["email"] = f"{name}{suffix}@{domain}"
        yield person


def computers(faker: Faker, count: int, owners: list[str]) -> Iterator[tuple[str, str | None]]:
    """Yield serials, each with the id of its owner or None."""
    random = faker.random
    for number in range(1, count + 1):
        vendor = random.choice(("5CG", "C02", "MXL", "PF"))
        serial = f"{vendor}{random.randint(18, 25)}{random.randint(1, 52):02}{number:05}"
        owned = owners and random.random() < SHARE_OWNED
        yield serial, random.choice(owners) if owned else None


async def generate(service: Service, options: argparse.Namespace, bar: tqdm[NoReturn]) -> None:
    """Create the persons, then the computers with their owners."""
    faker = Faker()
    faker.seed_instance(options.seed)
    ids: dict[int, str] = {}

    async def create_person(numbered: tuple[int, dict[str, str]]) -> None:
        number, attributes = numbered
        ids[number] = await service.create_person(attributes)

    async def create_computer(computer: tuple[str, str | None]) -> None:
        await service.create_computer(*computer)

    await in_parallel(enumerate(people(faker, options.persons)), create_person, bar)
    # Sorted, because responses arrive in any order and ownership must depend on the seed alone.
    owners = [ids[number] for number in sorted(ids)]
    await in_parallel(computers(faker, options.computers, owners), create_computer, bar)


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
            columns = _plural(len(fields), "column")
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


async def load_row(service: Service, values: dict[str, str]) -> None:
    """Create the person of a row and its computers; if one of them is invalid, create nothing."""
    serials = [serial for part in values["serials"].split(";") if (serial := part.strip())]
    attributes = {name: values[name] for name in ("first_name", "last_name")}
    if values["email"]:
        attributes["email"] = values["email"]
    await service.create_owner(attributes, serials)


async def load(service: Service, path: Path, tally: Tally, bar: tqdm[NoReturn]) -> None:
    """Create what the rows of the CSV file describe; report invalid rows on stderr."""

    async def load_or_report(row: tuple[int, dict[str, str] | InvalidResourceError]) -> None:
        line, values = row
        tally.lines_in_progress.add(line)
        try:
            if isinstance(values, InvalidResourceError):
                raise values
            await load_row(service, values)
        except InvalidResourceError as error:
            tally.invalid_rows += 1
            tqdm.write(f"line {line}: {error}", file=sys.stderr)
        tally.lines_in_progress.remove(line)

    # Bytes that are not UTF-8 become surrogates, so that they invalidate only their own row.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        await in_parallel(read_rows(file), load_or_report, bar)


async def seed(options: argparse.Namespace, tally: Tally) -> None:
    """Load the CSV file or generate data; raise SeedError, or OSError if the file is unreadable."""
    session = aiohttp.ClientSession(
        base_url=f"{options.url}/", timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    )
    total = None if options.csv else options.persons + options.computers
    async with session:
        # disable=None: shows the bar only on a terminal.
        with tqdm(total=total, disable=None, leave=False) as bar:
            if options.csv:
                await load(Service(session, tally), options.csv, tally, bar)
            else:
                await generate(Service(session, tally), options, bar)


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
        description="Fill a running registry with persons and their computers."
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
