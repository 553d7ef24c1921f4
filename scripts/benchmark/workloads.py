"""The workloads: the kinds of requests that are sent to the servers."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from benchmark.client import Client, Request
from benchmark.data import COMPUTERS_EACH, LAST_NAMES, deletable_ids
from registry.jsonapi.pagination import BY_ID, Cursors
from registry.protocol import OPERATIONS
from registry.resources.person import person

TITLES = {
    "read": "read one person",
    "page": "page of 50 computers with owners",
    "number": "page of 50 persons by number, with the total",
    "list": "list all persons",
    "create": "create a person",
    "create-owned": "create a computer with an owner",
    "create-include": "create a computer with an owner, who is included",
    "update": "update two attributes",
    "replace": "replace a person's three computers",
    "replace-include": "replace a person's three computers, which are included",
    "operations": "50 operations in one request",
    "delete": "delete a person with three computers",
}
"""The workloads for the comparisons of servers and of workers, by name."""

GROWTH_TITLES = {
    "read": "read one person",
    "include": "read one person with computers",
    "first": "first page of 50 persons",
    "number": "page of 50 persons by number, with the total",
    "far": "page 10,000 by cursor (or the last)",
    "contains": "persons whose e-mail contains text of one",
    "serial": "page of 50 computers by serial number",
    "owner": "page of 50 computers by last name of the owner",
    "value": "persons with a last name, which one of eight has",
    "related": "computers of owners with a last name, which one of eight has",
    "many": "persons with a computer of a serial number",
}
"""The workloads that show how cost grows with the database, by name."""

HEAVY_TITLES = {
    "include": "GET of a person with all computers included",
    "linkage": "GET of the linkage of a person to all computers",
    "related": "GET of all computers of a person",
    "stream": "GET of all computers with owners",
    "wrong": "PATCH of linkage that is not valid, 1 MiB",
    "operations": "POST of 1,000 operations",
    "filter": "GET of computers by 60 conditions that no index serves",
    "exchange": "PATCH of a person's computers, half of them at a time",
}
"""The workloads next to which small requests are timed, by name."""

OWNER = 1
"""The person of the heavy workloads, who owns all computers."""

_MAX_BODY = 2**20
_MAX_OPERATIONS = 1_000

_FILTERS, _CONDITIONS = 1_000, 60
"""How many different filters there are, and the conditions of each."""

_MAX_LINKAGE = 16_000
"""Resource identifiers per request, which fit into _MAX_BODY."""

_REQUESTS = 20_000
"""The number of requests in a workload of random ones."""

_PAGE = (
    "/computers?include=owner&fields%5Bcomputer%5D=serial&fields%5Bperson%5D=last_name"
    "&page%5Bsize%5D=50"
)

_CONTAINS = "filter%5Bemail%5D%5Bcontains%5D"

_CHANGING = "00000000"
"""What requests.lua replaces in bodies by other digits in each request.

Otherwise, requests that are sent again would not change anything.
"""

_MIXED_REQUESTS = 1_000
"""The number of requests with 50 operations, which are long."""

_PAGE_SIZE = 50
_FAR_PAGE = 10_000


@dataclass(frozen=True)
class Workload:
    """Requests of one kind.

    file: its requests, for wrk. samples: two of them; deletions, which succeed only once, are not
    in the file.
    """

    name: str
    title: str
    file: Path
    samples: tuple[Request, Request]


async def comparison_workloads(
    client: Client, persons: int, directory: Path
) -> dict[str, Workload]:
    """Return the workloads for comparisons; page cursors are read from the service."""
    choose = random.Random(1)  # noqa: S311 - the same requests in every run
    ids = [choose.randint(1, persons) for _ in range(_REQUESTS)]
    new, paths = "/computers", [f"/persons/{number}" for number in ids]
    requests = {
        "read": [Request("GET", path) for path in paths],
        "page": await _pages(client),
        "number": _numbered_pages(choose, persons),
        "list": [Request("GET", "/persons")],
        "create": [
            _write("POST", "/persons", {"type": "person", "attributes": _attributes(number)})
            for number in ids
        ],
        "create-owned": [_write("POST", new, _computer(number)) for number in ids],
        "create-include": [_write("POST", f"{new}?include=owner", _computer(one)) for one in ids],
        "update": [_update(path, index) for index, path in enumerate(paths)],
        "replace": [_replacement(choose, path, persons) for path in paths],
        "replace-include": [
            _replacement(choose, f"{path}?include=computers", persons) for path in paths
        ],
        "operations": [_mixed_operations(choose, persons) for _ in range(_MIXED_REQUESTS)],
        "delete": [Request("DELETE", f"/persons/{number}") for number in deletable_ids(persons)],
    }
    return _store(requests, TITLES, directory)


def growth_workloads(persons: int, directory: Path) -> dict[str, Workload]:
    """Return the workloads for a database of this many persons."""
    choose = random.Random(1)  # noqa: S311 - the same requests in every run
    ids = [choose.randint(1, persons) for _ in range(_REQUESTS)]
    first, computers = (f"/{name}?page%5Bsize%5D={_PAGE_SIZE}" for name in ("persons", "computers"))
    page = min(_FAR_PAGE, persons // _PAGE_SIZE)
    # The `next` link of the page before; the ids have no gaps.
    after = Cursors(person.type, BY_ID).encode(((page - 1) * _PAGE_SIZE,))
    requests = {
        "read": [Request("GET", f"/persons/{number}") for number in ids],
        "include": [Request("GET", f"/persons/{number}?include=computers") for number in ids],
        "first": [Request("GET", first)],
        "number": _numbered_pages(choose, persons),
        "far": [Request("GET", f"{first}&page%5Bafter%5D={after}")],
        "contains": [Request("GET", f"{first}&{_CONTAINS}=n.{number}%40") for number in ids],
        "serial": [Request("GET", _sorted_page("serial"))],
        "owner": [Request("GET", _sorted_page("owner.last_name"))],
        "value": [Request("GET", f"{first}&filter%5Blast_name%5D={LAST_NAMES[0]}")],
        "related": [
            Request("GET", f"{computers}&filter%5Bowner.last_name%5D={LAST_NAMES[0]}"),
        ],
        "many": [
            Request("GET", f"{first}&filter%5Bcomputers.serial%5D=SN-{number}") for number in ids
        ],
    }
    return _store(requests, GROWTH_TITLES, directory)


def heavy_workloads(computers: int, directory: Path) -> dict[str, Workload]:
    """Return the heavy workloads for a database in which OWNER has this many computers."""
    owner = f"/persons/{OWNER}"
    linkage = f"{owner}/relationships/computers"
    half = min(computers // 2, _MAX_LINKAGE)
    halves = (range(1, half + 1), range(half + 1, 2 * half + 1))
    wrong = orjson.dumps({"data": [{}] * ((_MAX_BODY - len('{"data":[]}')) // len("{},"))})
    requests = {
        "include": [Request("GET", f"{owner}?include=computers")],
        "linkage": [Request("GET", linkage)],
        "related": [Request("GET", f"{owner}/computers")],
        "stream": [Request("GET", "/computers?include=owner")],
        "wrong": [Request("PATCH", linkage, wrong)],
        "operations": [_updating_operations(computers)],
        "filter": [_filter(number) for number in range(_FILTERS)],
        # Last, as MongoDB is busy for seconds after it.
        "exchange": [Request("PATCH", linkage, _linkage(ids)) for ids in halves],
    }
    return _store(requests, HEAVY_TITLES, directory)


def _filter(number: int) -> Request:
    """Return a request with a filter of its own, as those with the same share a query."""
    conditions = [
        {"name": "serial", "op": "contains", "val": f"{number}-{each}"}
        for each in range(_CONDITIONS)
    ]
    text = quote(orjson.dumps([{"or": conditions}]))
    return Request("GET", f"/computers?filter={text}&page%5Bsize%5D=1")


def _updating_operations(computers: int) -> Request:
    """Return a request that updates the first computers."""
    numbers, serial = range(1, min(computers, _MAX_OPERATIONS) + 1), f"SN-{_CHANGING}"
    return _operations([_update_of("computer", number, serial=serial) for number in numbers])


def _mixed_operations(choose: random.Random, persons: int) -> Request:
    """Return a request that adds ten persons with two computers each, and updates ten of each type.

    A client that has collected changes while it was offline sends such requests.
    """
    operations = []
    updated = zip(_some(choose, persons, 10), _some(choose, 3 * persons, 10), strict=True)
    for index, (person_id, computer_id) in enumerate(updated):
        new = {"type": "person", "lid": f"new-{index}"}
        operations += [
            {"op": "add", "data": {**new, "attributes": _attributes(index)}},
            {"op": "add", "data": _computer_of(new, f"SN-{index}-home")},
            {"op": "add", "data": _computer_of(new, f"SN-{index}-office")},
            _update_of("person", person_id, email=f"hopper.{_CHANGING}@example.com"),
            _update_of("computer", computer_id, serial=f"SN-{_CHANGING}"),
        ]
    return _operations(operations)


def _operations(operations: list[dict[str, Any]]) -> Request:
    return Request("POST", "/operations", orjson.dumps({OPERATIONS: operations}))


def _update_of(type_name: str, number: int, **attributes: str) -> dict[str, Any]:
    """Return an operation that updates attributes."""
    data = {"type": type_name, "id": str(number), "attributes": attributes}
    return {"op": "update", "data": data}


def _linkage(ids: Iterable[int]) -> bytes:
    return orjson.dumps({"data": [{"type": "computer", "id": str(number)} for number in ids]})


def _numbered_pages(choose: random.Random, persons: int) -> list[Request]:
    last = max(1, persons // _PAGE_SIZE)
    path = f"/persons?page%5Bsize%5D={_PAGE_SIZE}&page%5Bnumber%5D="
    return [Request("GET", f"{path}{choose.randint(1, last)}") for _ in range(_REQUESTS)]


async def _pages(client: Client) -> list[Request]:
    """Return the requests of all pages but the first, following the `next` links."""
    requests: list[Request] = []
    url = f"{client.url}{_PAGE}"
    while url:
        page = await client.send(Request("GET", url.removeprefix(client.url)))
        url = orjson.loads(page)["links"]["next"]
        if url:
            requests.append(Request("GET", url.removeprefix(client.url)))
    return requests


def _sorted_page(sort: str) -> str:
    return f"/computers?sort={sort}&page%5Bsize%5D={_PAGE_SIZE}"


def _attributes(number: int) -> dict[str, str]:
    name = f"Lovelace-{number}"
    return {"first_name": "Ada", "last_name": name, "email": f"ada.{number}@example.com"}


def _computer(owner: int) -> dict[str, Any]:
    return _computer_of({"type": "person", "id": str(owner)}, f"SN-new-{owner}")


def _computer_of(owner: dict[str, str], serial: str) -> dict[str, Any]:
    """Return the data of a new computer. owner: the resource identifier of a person."""
    relationships = {"owner": {"data": owner}}
    attributes = {"serial": serial}
    return {"type": "computer", "attributes": attributes, "relationships": relationships}


def _update(path: str, index: int) -> Request:
    """Return an update of a person's last name and e-mail address, which change each time."""
    name = f"{index}-{_CHANGING}"
    attributes = {"last_name": f"Hopper-{name}", "email": f"hopper.{name}@example.com"}
    return _write("PATCH", path, {"type": "person", "attributes": attributes})


def _replacement(choose: random.Random, path: str, persons: int) -> Request:
    ids = sorted(_some(choose, COMPUTERS_EACH * persons, COMPUTERS_EACH))
    linkage = [{"type": "computer", "id": str(identifier)} for identifier in ids]
    relationships = {"computers": {"data": linkage}}
    return _write("PATCH", path, {"type": "person", "relationships": relationships})


def _some(choose: random.Random, last: int, count: int) -> list[int]:
    """Return different ids, from 1 to the last."""
    return choose.sample(range(1, last + 1), count)


def _write(method: str, path: str, data: dict[str, Any]) -> Request:
    return Request(method, path, orjson.dumps({"data": data}))


def _store(
    requests: dict[str, list[Request]], titles: dict[str, str], directory: Path
) -> dict[str, Workload]:
    """Write the requests to one file for each workload, in the format of requests.lua."""
    workloads = {}
    for name, choices in requests.items():
        file, (first, second) = directory / name, (choices * 2)[:2]
        others = choices[2:] if first.method == "DELETE" else choices
        lines = (f"{one.method}\t{one.path}\t{one.body.decode()}\n" for one in others)
        file.write_text("".join(lines))
        workloads[name] = Workload(name, titles[name], file, (first, second))
    return workloads
