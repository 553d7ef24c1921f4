"""The requests of each workload: random ones, but the same in every run."""

import random
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import orjson

from benchmark.data import COMPUTERS_EACH, LAST_NAMES
from benchmark.load import Request
from registry.protocol import OPERATIONS

Workloads = Mapping[str, list[Request]]
"""The requests of each workload, by its title."""

READ, READ_INCLUDE = "read one person", "read one person with computers"
PAGE, LIST = "page of 50 computers with owners, by number", "list all persons"
CREATE, CREATE_OWNED = "create a person", "create a computer with an owner"
UPDATE, REPLACE = "update two attributes", "replace a person's three computers"
COMPARED = (READ, READ_INCLUDE, PAGE, LIST, CREATE, CREATE_OWNED, UPDATE, REPLACE)
"""The titles of the workloads with which servers are compared."""

RELATED, CONTAINS = "computers of owners with a last name", "persons whose e-mail contains a text"
GROWING = (RELATED, CONTAINS)
"""Workloads of growth whose cost grows with the database: with the owners that match, and with all
texts."""

OWNER = 1
"""The person of the heavy workloads, who owns all computers."""

_REQUESTS = 20_000
"""The number of requests in a workload of random ones."""

_PAGE_SIZE = 50

_CHANGING = "00000000"
"""What requests.lua replaces in bodies by other digits in each request.

Otherwise, requests that are sent again would not change anything.
"""

_NAMES = {"last_name": f"Hopper-{_CHANGING}", "email": f"hopper.{_CHANGING}@example.com"}
_SERIAL = {"serial": f"SN-{_CHANGING}"}

_MAX_OPERATIONS = 1_000

_FILTERS, _CONDITIONS = 1_000, 60
"""How many different filters there are, and the conditions of each."""

_MAX_LINKAGE = 16_000
"""Resource identifiers per request, which fit into a body of the greatest size."""


def compared_workloads(persons: int) -> Workloads:
    """Return the workloads for comparisons, by the titles COMPARED."""
    choose = random.Random(1)  # noqa: S311 - the same requests in every run
    ids = [choose.randint(1, persons) for _ in range(_REQUESTS)]
    paths = [f"/persons/{number}" for number in ids]
    all_ids = range(1, COMPUTERS_EACH * persons + 1)
    return {
        READ: _gets(paths),
        READ_INCLUDE: _gets(f"{path}?include=computers" for path in paths),
        PAGE: _pages(choose, persons),
        LIST: _gets(["/persons"]),
        CREATE: [_write("POST", "/persons", "person", {"first_name": "Grace", **_NAMES})],
        CREATE_OWNED: [
            _write("POST", "/computers", "computer", _SERIAL, owner=_identifier("person", number))
            for number in ids
        ],
        UPDATE: [_write("PATCH", path, "person", _NAMES) for path in paths],
        REPLACE: [
            _write(
                "PATCH", path, "person", {}, computers=_computers(sorted(choose.sample(all_ids, 3)))
            )
            for path in paths
        ],
    }


def growth_workloads(persons: int) -> Workloads:
    """Return the workloads for a database of this many persons."""
    choose = random.Random(1)  # noqa: S311 - the same requests in every run
    ids = [choose.randint(1, persons) for _ in range(_REQUESTS)]
    first, computers = (f"/{name}?page%5Bsize%5D={_PAGE_SIZE}" for name in ("persons", "computers"))
    return {
        READ: _gets(f"/persons/{number}" for number in ids),
        READ_INCLUDE: _gets(f"/persons/{number}?include=computers" for number in ids),
        PAGE: _pages(choose, persons),
        "computers by serial number": _gets([f"{computers}&sort=serial"]),
        "computers by last name of the owner": _gets([f"{computers}&sort=owner.last_name"]),
        RELATED: _gets([f"{computers}&filter%5Bowner.last_name%5D={LAST_NAMES[0]}"]),
        "persons with a computer of a serial number": _gets(
            f"{first}&filter%5Bcomputers.serial%5D=SN-{number}" for number in ids
        ),
        CONTAINS: _gets(f"{first}&filter%5Bemail%5D%5Bcontains%5D=n.{number}%40" for number in ids),
    }


def heavy_workloads(computers: int) -> Workloads:
    """Return the heavy workloads for a database in which OWNER has this many computers."""
    owner = f"/persons/{OWNER}"
    half = min(computers // 2, _MAX_LINKAGE)
    halves = (range(1, half + 1), range(half + 1, 2 * half + 1))
    updates = [
        {"op": "update", "data": {**_identifier("computer", id_), "attributes": _SERIAL}}
        for id_ in range(1, min(computers, _MAX_OPERATIONS) + 1)
    ]
    return {
        "GET of a person with all computers included": _gets([f"{owner}?include=computers"]),
        "GET of all computers with owners": _gets(["/computers?include=owner"]),
        "POST of 1,000 operations": [
            Request("POST", "/operations", orjson.dumps({OPERATIONS: updates}))
        ],
        "GET of computers by 60 conditions that no index serves": [
            _unindexed_filter(number) for number in range(_FILTERS)
        ],
        # Last, as MongoDB is busy for seconds after it.
        "PATCH of a person's computers, half of them at a time": [
            Request("PATCH", f"{owner}/relationships/computers", _document(_computers(ids)))
            for ids in halves
        ],
    }


def _pages(choose: random.Random, persons: int) -> list[Request]:
    """Return the requests of random pages by number, which show the total."""
    last = COMPUTERS_EACH * persons // _PAGE_SIZE
    fields = "fields%5Bcomputer%5D=serial,owner&fields%5Bperson%5D=last_name"
    path = f"/computers?include=owner&{fields}&page%5Bsize%5D={_PAGE_SIZE}&page%5Bnumber%5D="
    return _gets(f"{path}{choose.randint(1, last)}" for _ in range(_REQUESTS))


def _unindexed_filter(number: int) -> Request:
    """Return a request with a filter of its own, as those with the same share a query."""
    conditions = [
        {"name": "serial", "op": "contains", "val": f"{number}-{index}"}
        for index in range(_CONDITIONS)
    ]
    text = quote(orjson.dumps([{"or": conditions}]))
    return Request("GET", f"/computers?filter={text}&page%5Bsize%5D=1")


def _gets(paths: Iterable[str]) -> list[Request]:
    return [Request("GET", path) for path in paths]


def _write(
    method: str, path: str, type_name: str, attributes: dict[str, str], **linkage: object
) -> Request:
    relationships = {name: {"data": identifiers} for name, identifiers in linkage.items()}
    data = {"type": type_name, "attributes": attributes, "relationships": relationships}
    return Request(method, path, _document({name: value for name, value in data.items() if value}))


def _document(data: object) -> bytes:
    return orjson.dumps({"data": data})


def _computers(ids: Iterable[int]) -> list[dict[str, str]]:
    return [_identifier("computer", number) for number in ids]


def _identifier(type_name: str, number: int) -> dict[str, str]:
    return {"type": type_name, "id": str(number)}
