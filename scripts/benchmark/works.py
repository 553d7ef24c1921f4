"""The works: what is asked of the servers."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmark.client import Client, Request
from registry.jsonapi.cursors import Cursors
from registry.jsonapi.sorting import BY_ID
from registry.resources.person import person

_PAGE = (
    "/computers?include=owner&fields%5Bcomputer%5D=serial&fields%5Bperson%5D=last_name"
    "&page%5Bsize%5D=50"
)

TITLES = {
    "read": "read one person",
    "page": "page of 50 computers with owners",
    "list": "list all persons",
    "create": "create a person",
    "update": "update attributes",
    "replace": "replace a person's computers",
}
"""The works in which the servers are compared, by name."""

GROWING_TITLES = {
    "read": "read one person",
    "include": "read one person with computers",
    "first": "first page of 50 persons",
    "far": "page 10,000 by cursor (or the last)",
}
"""The works that show how cost grows, by name."""

_CHOICES = 20_000
"""How many different requests there are of a work, if they are random."""

_PAGE_SIZE = 50
_FAR = 10_000


@dataclass(frozen=True)
class Work:
    """One kind of request. file: where wrk finds the requests; sample: one of them."""

    name: str
    title: str
    file: Path
    sample: Request


async def comparing(client: Client, persons: int, directory: Path) -> dict[str, Work]:
    """Return the works in which the servers are compared; the service gives the cursors."""
    choose = random.Random(1)  # noqa: S311 - the same requests in every run
    ids = [choose.randint(1, persons) for _ in range(_CHOICES)]
    made = {
        "read": [Request("GET", f"/persons/{number}") for number in ids],
        "page": await _pages(client),
        "list": [Request("GET", "/persons")],
        "create": [_write("POST", "/persons", attributes=_person(number)) for number in ids],
        "update": [
            _write("PATCH", f"/persons/{number}", attributes={"last_name": f"Hopper-{index}"})
            for index, number in enumerate(ids)
        ],
        "replace": [_replacing(choose, number, 3 * persons) for number in ids],
    }
    return _written(made, TITLES, directory)


def growing(persons: int, directory: Path) -> dict[str, Work]:
    """Return the works that show how cost grows, for so many persons."""
    choose = random.Random(1)  # noqa: S311 - the same requests in every run
    ids = [choose.randint(1, persons) for _ in range(_CHOICES)]
    first = f"/persons?page%5Bsize%5D={_PAGE_SIZE}"
    page = min(_FAR, persons // _PAGE_SIZE)
    # As `next` on the page before has it; there are no gaps between the ids.
    after = Cursors(person.type, BY_ID).encode(((page - 1) * _PAGE_SIZE,))
    made = {
        "read": [Request("GET", f"/persons/{number}") for number in ids],
        "include": [Request("GET", f"/persons/{number}?include=computers") for number in ids],
        "first": [Request("GET", first)],
        "far": [Request("GET", f"{first}&page%5Bafter%5D={after}")],
    }
    return _written(made, GROWING_TITLES, directory)


async def _pages(client: Client) -> list[Request]:
    """Return the requests of all pages but the first, as the links of the service lead there."""
    found: list[Request] = []
    following = f"{client.url}{_PAGE}"
    while following:
        answer = await client.send(Request("GET", following.removeprefix(client.url)))
        following = orjson.loads(answer)["links"]["next"]
        if following:
            found.append(Request("GET", following.removeprefix(client.url)))
    return found


def _person(number: int) -> dict[str, str]:
    name = f"Lovelace-{number}"
    return {"first_name": "Ada", "last_name": name, "email": f"ada.{number}@example.com"}


def _replacing(choose: random.Random, number: int, computers: int) -> Request:
    ids = sorted(choose.sample(range(1, computers + 1), 3))
    linkage = [{"type": "computer", "id": str(identifier)} for identifier in ids]
    relationships = {"computers": {"data": linkage}}
    return _write("PATCH", f"/persons/{number}", relationships=relationships)


def _write(method: str, path: str, **members: Any) -> Request:
    document = {"data": {"type": "person", **members}}
    return Request(method, path, orjson.dumps(document))


def _written(
    made: dict[str, list[Request]], titles: dict[str, str], directory: Path
) -> dict[str, Work]:
    works = {}
    for name, requests in made.items():
        file = directory / name
        lines = (f"{one.method}\t{one.path}\t{one.body.decode()}\n" for one in requests)
        file.write_text("".join(lines))
        works[name] = Work(name, titles[name], file, requests[0])
    return works
