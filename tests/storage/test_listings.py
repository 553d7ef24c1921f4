"""What a page costs the database."""

from __future__ import annotations

from typing import Any

import pytest

from registry.jsonapi.cursors import Cursors, Position
from registry.jsonapi.sorting import Order, parse_sort
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.storage.profiling import profiled
from tests.support import Api, CommandLog, Database, Response

GRAPH = Graph(RESOURCES)

MANY, SIZE = 3_000, 10
OWNER = MANY
MIDDLE = Cursors("computer", parse_sort("", GRAPH["computer"], GRAPH)).encode((MANY // 2,))
FEW = 5 * SIZE
"""Keys or documents that a page may examine: a small multiple of its size, not of the collection.
A page reads one more than its size, twice where two conditions are combined, and skipped keys."""


@pytest.fixture
async def many(api: Api, database: Database) -> Api:
    """Groups of 5 share a last name, half have no e-mail; one person owns half the computers."""
    await database.persons.insert_many(
        {
            "_id": number,
            "first_name": f"First {number % 7}{number}",
            "last_name": f"Last {number % (MANY // 5):04}",
            "email": f"{number * 7919 % MANY}@example.com" if number % 2 else None,
        }
        for number in range(1, MANY + 1)
    )
    await database.computers.insert_many(
        {
            "_id": number,
            "serial": f"SN-{number * 7919 % MANY}",
            "person": OWNER if number % 2 else number % 300 or None,
        }
        for number in range(1, MANY + 1)
    )
    await api.get("/persons?sort=full_name&page[size]=1")  # stores the full names
    return api


def position(record: dict[str, Any], order: Order) -> Position:
    return tuple(record.get(key.stored_name) for key in order)


@pytest.mark.parametrize("direction", ["", "-"])
@pytest.mark.parametrize(
    ("collection", "names"),
    [
        *(("persons", [name]) for name in ("id", "first_name", "last_name", "full_name", "email")),
        *(("computers", [name]) for name in ("id", "serial", "owner")),
        ("persons", ["last_name", "first_name"]),
        ("persons", ["last_name", "-first_name"]),
        ("persons", ["last_name", "-id"]),
        ("persons", ["full_name", "email"]),
    ],
)
async def test_a_late_page_costs_no_more_than_the_first(
    many: Api, database: Database, collection: str, names: list[str], direction: str
) -> None:
    sort = ",".join(f"{direction}{name}".replace("--", "") for name in names)
    resource = GRAPH[collection.removesuffix("s")]
    order = parse_sort(sort, resource, GRAPH)
    fields = [(key.stored_name, -1 if key.descending else 1) for key in order]
    stored = await database[collection].find(sort=fields).to_list(None)
    path = f"/{collection}?sort={sort}&page[size]={SIZE}"
    cursors = Cursors(resource.type, order)
    for place in (MANY // 4, MANY // 2, MANY - 2 * SIZE):
        cursor = cursors.encode(position(stored[place], order))
        after, before = stored[place + 1 : place + 1 + SIZE], stored[place - SIZE : place]
        for member, expected in (("after", after), ("before", before)):
            link = f"{path}&page[{member}]={cursor}"
            response = await cheap_page(many, database, link)
            assert [int(one["id"]) for one in response.data] == [one["_id"] for one in expected]
    for link in (path, response.document["links"]["last"].removeprefix(many.origin)):
        await cheap_page(many, database, link)


@pytest.mark.parametrize(
    "path",
    [
        f"/persons/{OWNER}/computers?page[after]={MIDDLE}",
        f"/persons/{OWNER}/computers?page[before]={MIDDLE}",
        f"/persons/{OWNER}/relationships/computers?page[after]={MIDDLE}",
        "/computers?sort=owner,-serial",  # begins with nulls
        f"/persons/{OWNER}?include=computers&page[computers][size]={SIZE}",
    ],
)
async def test_the_cost_of_a_page_depends_on_its_size_only(
    many: Api, database: Database, path: str
) -> None:
    await cheap_page(many, database, path if "include" in path else f"{path}&page[size]={SIZE}")


async def cheap_page(api: Api, database: Database, path: str) -> Response:
    """Return a page that has the expected size, for which few keys and documents are examined."""
    async with profiled(database, *(one.collection for one in GRAPH.values())) as profile:
        response = await api.get(path)
    shown = response.included if "include" in path else response.data
    assert len(shown) == SIZE
    assert profile.examined <= FEW, path
    return response


@pytest.mark.parametrize(
    "path",
    [
        "/persons?page[size]=500",
        "/persons?sort=-email&page[size]=500",
        "/computers?sort=owner.email&page[size]=500",
    ],
)
async def test_a_page_arrives_in_one_batch(many: Api, commands: CommandLog, path: str) -> None:
    commands.take("all")
    assert len((await many.get(path)).data) == 500
    assert commands.take("getMore") == []
