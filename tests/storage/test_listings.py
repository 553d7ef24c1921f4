"""What a page costs the database, and concurrent writes while a page is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import MongoClient, monitoring

from registry.capacity import Capacity
from registry.jsonapi.cursors import Cursors, Position
from registry.jsonapi.pagination import CursorPage, Window
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import Order, parse_sort
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.backlog import Backlog
from registry.storage.bulkheads import Bulkheads
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.reads.listings import Listing
from registry.storage.reads.snapshot import Reads, Snapshot
from tests.support import Api, CommandLog, Database, Response

GRAPH = Graph(RESOURCES)

MANY, SIZE = 3_000, 10
OWNER = MANY
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


async def examined(
    database: Database, request: Callable[[], Awaitable[Response]]
) -> tuple[int, Response]:
    """Return how many index keys or documents MongoDB examined, whichever are more."""
    await database.command("profile", 2)
    response = await request()
    await database.command("profile", 0)
    reads = {"ns": {"$in": [f"{database.name}.{one.collection}" for one in GRAPH.values()]}}
    profiles = await database.system.profile.find(reads).to_list(None)
    await database.system.profile.drop()
    assert profiles, "the profiler recorded nothing"
    return max(
        sum(one[field] for one in profiles) for field in ("keysExamined", "docsExamined")
    ), response


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
            cost, response = await examined(database, partial(many.get, link))
            assert [int(one["id"]) for one in response.data] == [one["_id"] for one in expected]
            assert cost <= FEW, (member, place)
    for link in (path, response.document["links"]["last"].removeprefix(origin(many))):
        cost, response = await examined(database, partial(many.get, link))
        assert len(response.data) == SIZE
        assert cost <= FEW, link


def origin(api: Api) -> str:
    return str(api.client.make_url("/")).rstrip("/")


@pytest.mark.parametrize("path", ["computers", "relationships/computers"])
async def test_the_cost_of_a_related_page_depends_on_its_size_only(
    many: Api, database: Database, path: str
) -> None:
    cursor = Cursors("computer", parse_sort("", GRAPH["computer"], GRAPH)).encode((MANY // 2,))
    for member in ("after", "before"):
        link = f"/persons/{OWNER}/{path}?page[size]={SIZE}&page[{member}]={cursor}"
        cost, _ = await examined(database, partial(identifiers, many, link))
        assert cost <= FEW


async def identifiers(api: Api, path: str) -> Response:
    """Get a document of resource identifiers."""
    async with api.client.get(path) as response:
        document = await response.json(content_type=None)
        assert len(document["data"]) == SIZE
        return Response(response.status, response.headers, document)


async def test_an_order_that_begins_with_nulls_costs_no_more(many: Api, database: Database) -> None:
    path = f"/computers?sort=owner,-serial&page[size]={SIZE}"
    cost, response = await examined(database, partial(many.get, path))
    assert len(response.data) == SIZE
    assert cost <= FEW


async def test_the_cost_of_an_included_page_depends_on_its_size_only(
    many: Api, database: Database
) -> None:
    path = f"/persons/{OWNER}?include=computers&page[computers][size]={SIZE}"
    cost, response = await examined(database, partial(many.get, path))
    assert len(response.included) == SIZE
    assert cost <= FEW


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


class ConcurrentWrite(monitoring.CommandListener):
    """Runs a write when the first query of a page has succeeded."""

    def __init__(self, write: Callable[[], object]) -> None:
        self._writes = [write]

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        """Do nothing; the base class requires this method."""

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        if event.command_name in {"find", "aggregate"} and self._writes:
            self._writes.pop()()

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Do nothing; the base class requires this method."""


@asynccontextmanager
async def with_concurrent_write(
    uri: str, settings: Settings, sort: str, write: Callable[[Any], object]
) -> AsyncIterator[tuple[Listing, Cursors]]:
    """Yield the persons in an order; the write happens while a page is read."""
    order = parse_sort(sort, GRAPH["person"], GRAPH)
    with MongoClient[dict[str, Any]](uri) as other:
        persons = other[settings.database].persons
        listener = ConcurrentWrite(lambda: write(persons))
        client: AsyncIOMotorClient[dict[str, Any]] = AsyncIOMotorClient(
            uri, event_listeners=[listener]
        )
        database = client[settings.database]
        capacity = Capacity.of(settings)
        bulkheads = Bulkheads.of(capacity)
        reads = Reads(ReadCommands(database), GRAPH, capacity, bulkheads, Backlog())
        listing = Snapshot(reads).listing(GRAPH["person"], Query(order=order))
        try:
            yield listing, Cursors("person", order)
        finally:
            client.close()
    assert not listener._writes


def ids(window: Window) -> list[int]:
    return [record["_id"] for record in window.records]


@pytest.mark.parametrize("sort", ["last_name,-id", "last_name,first_name"])
async def test_a_deletion_while_a_page_is_read_does_not_end_paging(
    mongodb_uri: str, settings: Settings, database: Database, sort: str
) -> None:
    await database.persons.insert_many(
        {"_id": number, "first_name": "A", "last_name": f"B{number}"} for number in range(1, 9)
    )

    def delete(persons: Any) -> None:
        persons.delete_one({"_id": 4})

    async with with_concurrent_write(mongodb_uri, settings, sort, delete) as (listing, cursors):
        window = await listing.window(CursorPage(3, cursors))
    assert ids(window) == [1, 2, 3]
    assert window.more


async def test_a_rename_while_a_page_is_read_neither_repeats_a_record_nor_ends_paging(
    mongodb_uri: str, settings: Settings, database: Database
) -> None:
    await database.persons.insert_many(
        {"_id": number, "first_name": "F", "last_name": name}
        for number, name in enumerate("AABBCC", 1)
    )

    def rename(persons: Any) -> None:
        persons.update_one({"_id": 2}, {"$set": {"last_name": "B"}})

    async with with_concurrent_write(mongodb_uri, settings, "last_name", rename) as (
        listing,
        cursors,
    ):
        window = await listing.window(CursorPage(2, cursors, ("A", 1)))
    assert ids(window) == [2, 3]
    assert window.more
