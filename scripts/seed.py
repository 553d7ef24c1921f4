"""Fill a running registry over HTTP, with believable data or with the rows of a CSV file.

Generated data: the same seed and counts give the same names, e-mail addresses, serials and owners.
Ids are no part of that: the service hands them out in the order in which requests reach it.

A CSV file is UTF-8 with a header that names first_name, last_name, email and serials, in any
order. Serials are separated by semicolons; e-mail and serials may be empty. A bad row is reported
on stderr with the line it starts on and leaves nothing behind, and the rest goes in.

Exit status: 0 if everything is in, 1 if something is not, 2 for wrong usage or an unusable file,
130 if interrupted.
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

CONCURRENCY = 16  # requests in flight: enough to keep the service busy
TIMEOUT_SECONDS = 30
COLUMNS = ("first_name", "last_name", "email", "serials")
JSON_API = "application/vnd.api+json"
ATOMIC = f'{JSON_API}; ext="https://jsonapi.org/ext/atomic"'
DONE = {200, 201}
NOT_ACCEPTABLE = {400, 413, 422}  # the answers to a resource that can never go in
SHARE_WITH_EMAIL = 0.9
SHARE_OWNED = 0.9


class SeedError(Exception):
    """The run cannot go on; the text says why in one line."""


class WrongHeaderError(SeedError):
    """The CSV file does not begin with the header described above."""


class BadResourceError(SeedError):
    """A person or computer is not acceptable; each argument is a complaint about it."""

    def __str__(self) -> str:
        return "; ".join(self.args)


@dataclass
class Tally:
    """What the service confirmed as made, and the rows of a CSV file that did not go in."""

    persons: int = 0
    computers: int = 0
    owned: int = 0
    bad_rows: int = 0
    lines_under_way: set[int] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        text = (
            f"made {_plural(self.persons, 'person')} and {_plural(self.computers, 'computer')}, "
            f"{self.owned} of them owned, in {time.monotonic() - self.started:.1f} s"
        )
        if self.bad_rows:
            text += f"; left out {_plural(self.bad_rows, 'bad row')}"
        if self.lines_under_way:
            text += f"; what stands from line {min(self.lines_under_way)} on may not be in"
        return text


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Service:
    """The public API of a running registry, as far as seeding needs it.

    Nothing is sent twice, as a request without an answer may have been carried out. The methods
    raise BadResourceError if the resource is not acceptable, SeedError if the service fails.
    """

    def __init__(self, session: aiohttp.ClientSession, tally: Tally) -> None:
        self._session = session
        self._tally = tally

    async def create_person(self, attributes: dict[str, str]) -> str:
        """Create a person and return its id."""
        number = await self._create("persons", {"type": "person", "attributes": attributes})
        self._tally.persons += 1
        return number

    async def create_computer(self, serial: str, owner: str | None) -> None:
        """Create a computer that belongs to the person with the id `owner`, or to nobody."""
        identifier = None if owner is None else {"type": "person", "id": owner}
        await self._create("computers", _computer(serial, identifier))
        self._tally.computers += 1
        self._tally.owned += owner is not None

    async def create_owner(self, attributes: dict[str, str], serials: list[str]) -> None:
        """Create a person and the computers that belong to it: all of them, or none."""
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
            raise SeedError(f"this is no registry: no id in its answer to POST /{path}") from None

    async def _send(self, path: str, document: dict[str, Any], media_type: str) -> bytes:
        try:
            async with self._session.post(
                path, json=document, headers={"Content-Type": media_type}, allow_redirects=False
            ) as response:
                body = await response.read()
        except TimeoutError:
            raise SeedError(f"no answer from the service within {TIMEOUT_SECONDS} s") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = " ".join(str(error).split())
            raise SeedError(
                f"the service is out of reach (does it run, is --url right?): {reason}"
            ) from None
        if response.status not in DONE:
            _raise_refusal(response, body)
        return body


def _computer(serial: str, owner: dict[str, str] | None) -> dict[str, Any]:
    """Return the resource object of a computer; owner: the identifier of a person."""
    resource: dict[str, Any] = {"type": "computer", "attributes": {"serial": serial}}
    return resource if owner is None else resource | {"relationships": {"owner": {"data": owner}}}


def _raise_refusal(response: aiohttp.ClientResponse, body: bytes) -> NoReturn:
    try:
        complaints = [_complaint(error) for error in json.loads(body)["errors"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        complaints = []
    if complaints and response.status in NOT_ACCEPTABLE:
        raise BadResourceError(*complaints)
    answer = f"{response.status} {response.reason}"
    raise SeedError(": ".join([f"POST {response.url} was answered with {answer}", *complaints]))


def _complaint(error: dict[str, Any]) -> str:
    attribute = error.get("source", {}).get("pointer", "").rpartition("/")[2]
    return f"{attribute}: {error['detail']}" if attribute else str(error["detail"])


async def in_parallel(
    items: Iterable[Item], work: Callable[[Item], Awaitable[None]], bar: tqdm[NoReturn]
) -> None:
    """Do the work for each item, CONCURRENCY at a time, taking items only as they are needed.

    After a failure no further item is taken; it is raised when the work under way has ended, as
    requests given up half-way may be carried out without being counted.
    """
    source = iter(items)
    failed = False

    async def worker() -> None:
        nonlocal failed
        for item in source:
            try:
                await work(item)
            except Exception:
                failed = True
                raise
            bar.update()
            if failed:
                return

    workers = (worker() for _ in range(CONCURRENCY))
    for outcome in await asyncio.gather(*workers, return_exceptions=True):
        if outcome is not None:
            raise outcome


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
    """Yield serials, each with the id of its owner if it has one."""
    random = faker.random
    for number in range(1, count + 1):
        maker = random.choice(("5CG", "C02", "MXL", "PF"))
        serial = f"{maker}{random.randint(18, 25)}{random.randint(1, 52):02}{number:05}"
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
    # In the order of the data, whichever answer came first: who owns what depends on it.
    owners = [ids[number] for number in sorted(ids)]
    await in_parallel(computers(faker, options.computers, owners), create_computer, bar)


def split_rows(lines: Iterator[str]) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """Yield the line that each row starts on, and its fields or what is wrong with its form.

    An open quote swallows the rows behind it, so after a row of wrong form reading goes on right
    behind the line it starts on. The size limit of a field bounds what is read again.
    """
    ahead: deque[str] = deque()
    taken: list[str] = []

    def take() -> Iterator[str]:
        while line := ahead.popleft() if ahead else next(lines, ""):
            taken.append(line)
            yield line

    number = 1
    while True:
        taken.clear()
        try:
            fields = next(csv.reader(take(), strict=True), None)
        except csv.Error as error:
            yield number, error
            ahead.extendleft(reversed(taken[1:]))
            number += 1
            continue
        if fields is None:
            return
        if len(fields) > 1 or "".join(fields).strip():
            yield number, fields
        number += len(taken)


def read_rows(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, str] | BadResourceError]]:
    """Yield the line of each row behind the header, and its values or what is wrong with it.

    Raises WrongHeaderError if the file does not begin with the header.
    """
    rows = split_rows(lines)
    _, header = next(rows, (1, []))
    if isinstance(header, csv.Error) or sorted(header) != sorted(COLUMNS):
        found = header if isinstance(header, csv.Error) else ascii(",".join(header))[:100]
        raise WrongHeaderError(f"the header has to be {','.join(COLUMNS)} and is {found}")
    for line, fields in rows:
        if isinstance(fields, csv.Error):
            yield line, BadResourceError(f"not CSV: {fields}")
        elif len(fields) != len(COLUMNS):
            columns = _plural(len(fields), "column")
            yield line, BadResourceError(f"{columns} in place of {len(COLUMNS)}")
        elif not _is_text(fields):
            yield line, BadResourceError("not UTF-8")
        else:
            yield line, dict(zip(header, fields, strict=True))


def _is_text(fields: list[str]) -> bool:
    try:
        "".join(fields).encode()
    except UnicodeEncodeError:
        return False
    return True


async def load_row(service: Service, values: dict[str, str]) -> None:
    """Create the person of a row and its computers; after BadResourceError, neither is there."""
    serials = [serial for part in values["serials"].split(";") if (serial := part.strip())]
    attributes = {name: values[name] for name in ("first_name", "last_name")}
    if values["email"]:
        attributes["email"] = values["email"]
    await service.create_owner(attributes, serials)


async def load(service: Service, path: Path, tally: Tally, bar: tqdm[NoReturn]) -> None:
    """Create what the rows of the CSV file say, and report the bad ones on stderr."""

    async def work(row: tuple[int, dict[str, str] | BadResourceError]) -> None:
        line, values = row
        tally.lines_under_way.add(line)
        try:
            if isinstance(values, BadResourceError):
                raise values
            await load_row(service, values)
        except BadResourceError as error:
            tally.bad_rows += 1
            tqdm.write(f"line {line}: {error}", file=sys.stderr)
        tally.lines_under_way.remove(line)

    # A byte that is not UTF-8 becomes a surrogate, so that it spoils its own row only.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        await in_parallel(read_rows(file), work, bar)


async def seed(options: argparse.Namespace, tally: Tally) -> None:
    """Do what the options say; raise SeedError, or OSError if the file cannot be read."""
    session = aiohttp.ClientSession(
        base_url=f"{options.url}/", timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
    )
    total = None if options.csv else options.persons + options.computers
    async with session:
        # disable=None: a bar on a terminal only.
        with tqdm(total=total, disable=None, leave=False) as bar:
            if options.csv:
                await load(Service(session, tally), options.csv, tally, bar)
            else:
                await generate(Service(session, tally), options, bar)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is no count")
    return int(text)


def _url(text: str) -> str:
    try:
        url = URL(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no URL: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host or url.query_string or url.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is no URL such as http://127.0.0.1:8080")
    return text.rstrip("/")


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line; end the program if they are wrong."""
    parser = argparse.ArgumentParser(
        description="Fill a running registry with persons and their computers."
    )
    parser.add_argument(
        "--url", type=_url, default="http://127.0.0.1:8080", help="where it runs (%(default)s)"
    )
    parser.add_argument("--persons", type=_count, help="how many to make (100)")
    parser.add_argument("--computers", type=_count, help="how many to make (3 for each person)")
    parser.add_argument("--seed", type=int, help="same seed and counts, same data (1)")
    parser.add_argument(
        "--csv", type=Path, help=f"a file to load instead; its columns: {','.join(COLUMNS)}"
    )
    options = parser.parse_args(arguments)
    generated = (options.persons, options.computers, options.seed)
    if options.csv and generated != (None, None, None):
        parser.error("--csv takes everything from the file: no --persons, --computers, --seed")
    if options.persons is None:
        options.persons = 100
    if options.computers is None:
        options.computers = 3 * options.persons
    if options.seed is None:
        options.seed = 1
    return options


def main() -> int:
    """Run the command line and return the exit status."""
    options, tally = parse_options(), Tally()
    try:
        asyncio.run(seed(options, tally))
    except WrongHeaderError as error:
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
    return 1 if tally.bad_rows else 0


if __name__ == "__main__":
    sys.exit(main())
