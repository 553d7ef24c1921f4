"""Sorting by fields of related resources: as `$lookup` and `$sort` do, at the cost of a page."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from marshmallow import Schema

from registry.capacity import Capacity
from registry.jsonapi.cursors import END, Cursors, Position
from registry.jsonapi.filtering import Condition, Filter
from registry.jsonapi.pagination import CursorPage, NumberedPage, Page, Window
from registry.jsonapi.query import Query
from registry.jsonapi.sorting import parse_sort, sort_names
from registry.model.attributes import Operator, Text
from registry.model.graph import Graph
from registry.model.resource_type import Link, ResourceType
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.backlog import Backlog
from registry.storage.bulkheads import Bulkheads
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.reads import joined_reads, listings
from registry.storage.reads.filters import to_query
from registry.storage.reads.listings import Listing
from registry.storage.reads.snapshot import Reads, Snapshot
from registry.storage.repository import Repository
from tests.support import Database


class MonitorSchema(Schema):
    """The attributes of a monitor."""

    brand = Text()
    model = Text()


MONITOR = ResourceType(
    type="monitor",
    collection="monitors",
    schema=MonitorSchema,
    links=(
        Link("user", "person", "user_id", "monitors"),
        Link("host", "computer", "host", "heads"),
    ),
)

GRAPH = Graph((*RESOURCES, MONITOR))
MONITORS = GRAPH["monitor"]
SORTS = [name for name in sort_names(MONITORS, GRAPH) if not name.startswith("host.")]

Records = list[dict[str, Any]]

TEXTS = st.sampled_from(["", "A", "B", "a", "😀"])
NAMES = st.none() | TEXTS
PERSONS: st.SearchStrategy[Records] = st.lists(
    st.fixed_dictionaries({"first_name": TEXTS, "last_name": TEXTS, "email": NAMES}),
    min_size=6,
    max_size=12,
)
USERS = st.none() | st.integers(1, 12)
RECORDS: st.SearchStrategy[Records] = st.lists(
    st.fixed_dictionaries({"brand": NAMES, "model": NAMES, "user_id": USERS}),
    min_size=20,
    max_size=40,
)
BY_USER = st.sampled_from(
    [
        "user.first_name",
        "-user.first_name",
        "user.last_name,user.first_name",
        "-user.last_name,-user.email",
        "user.id",
        "-user.id",
        "user.first_name,-user.id",
        "-user.first_name,user.id,-id",
        "user.first_name,user.id,-id",
        "-user.first_name,-user.id,brand",
    ]
)
"""Orders that a loop serves, and orders that are not all in one direction, or not to the end."""
ORDERS = BY_USER | st.lists(
    st.builds(str.__add__, st.sampled_from(["", "-"]), st.sampled_from(SORTS)),
    min_size=1,
    max_size=4,
    unique_by=lambda name: name.removeprefix("-"),
).map(",".join)
FILTERS = st.sampled_from(
    [
        [],
        [Condition("brand", Operator.EQ, "A")],
        [Condition("brand", Operator.NE, None), Condition("model", Operator.PREFIX, "")],
        [Condition("user_id", Operator.EQ, 1)],
        [Condition("user_id", Operator.EQ, None)],
        [Condition("user_id", Operator.IN, (1, 2, None))],
        [Condition("user_id", Operator.NE, 1)],
        [Condition("user_id", Operator.GT, 2)],
    ]
)


LIMITS = st.fixed_dictionaries(
    {
        "_MAX_SORTED": st.integers(0, 2),
        "MAX_BATCH": st.integers(1, 8),
        "_RECORDS_PER_RESULT": st.integers(2, 3),
        "_EXTRA_TARGETS": st.integers(0, 3),
        "MAX_IDS": st.integers(0, 8),
    }
)
"""Low limits, so that small data take every path."""


@contextmanager
def limited(**limits: int) -> Iterator[None]:
    """Replace limits of the module, by name."""
    with ExitStack() as patches:
        for name, limit in limits.items():
            patches.enter_context(patch.object(joined_reads, name, limit))
        yield


@dataclass(frozen=True)
class Example:
    """Data, and how pages of it are requested. limits: of the modules, by name."""

    persons: Records
    monitors: Records
    sort: str
    filters: list[Filter]
    page: CursorPage
    number: int
    limits: dict[str, int]


EXAMPLES = st.builds(
    Example,
    persons=PERSONS,
    monitors=RECORDS,
    sort=ORDERS,
    filters=FILTERS,
    page=st.builds(CursorPage, st.integers(1, 7), st.none(), backwards=st.booleans()),
    number=st.integers(1, 4),
    limits=LIMITS,
)


class Reader:
    """Reads pages of one type; `expected` sorts all its records after a `$lookup` of targets."""

    def __init__(self, database: Database, resource: ResourceType, sort: str) -> None:
        capacity = Capacity.of(Settings())
        bulkheads = Bulkheads.of(capacity)
        self.reads = Reads(ReadCommands(database), GRAPH, capacity, bulkheads, Backlog())
        self.database = database
        self.resource = resource
        self.order = parse_sort(sort, resource, GRAPH)
        self.cursors = Cursors(resource.type, self.order)
        self.filters: list[Filter] = []

    def listing(self) -> Listing:
        query = Query(order=self.order, filters=tuple(self.filters))
        return Snapshot(self.reads).listing(self.resource, query)

    async def window(self, page: Page) -> Window:
        return await self.listing().window(page)

    async def streamed(self, size: int) -> list[int]:
        """Return the ids of all records, streamed in batches of this size."""
        with patch.object(listings, "CHUNK", size):
            async with self.listing().chunks() as batches:
                return [record["_id"] async for batch in batches for record in batch]

    async def pages(self, size: int, backwards: bool) -> list[list[int]]:
        """Return the ids on each page, from the first or last, through encoded cursors."""
        page = CursorPage(size, self.cursors, END if backwards else None, backwards)
        pages: list[list[int]] = []
        while True:
            window = await self.window(page)
            pages.append(ids(window))
            position = window.first if backwards else window.last
            if not window.more or position is None:
                return pages
            cursor = self.cursors.encode(position)
            page = replace(page, position=self.cursors.decode(cursor, "page"))

    async def expected(self) -> list[tuple[int, Position]]:
        """Return the ids and the positions of all records in order."""
        stages: Records = [{"$match": {"$and": [{}, *map(to_query, self.filters)]}}]
        for relationship in {key.relationship for key in self.order if key.relationship}:
            path = f"related.{relationship.name}"
            lookup = {
                "from": GRAPH[relationship.target].collection,
                "localField": relationship.foreign_key,
                "foreignField": "_id",
                "as": path,
            }
            stages += [{"$lookup": lookup}, {"$set": {path: {"$first": f"${path}"}}}]
        paths = [
            f"related.{key.relationship.name}.{key.stored_name}"
            if key.relationship
            else key.stored_name
            for key in self.order
        ]
        directions = [-1 if key.descending else 1 for key in self.order]
        values = [{"$ifNull": [f"${path}", None]} for path in paths]
        stages += [
            {"$sort": dict(zip(paths, directions, strict=True))},
            {"$project": {"position": values}},
        ]
        found = await self.database[self.resource.collection].aggregate(stages).to_list(None)
        return [(record["_id"], tuple(record["position"])) for record in found]


async def store(database: Database, persons: Records, monitors: Records) -> None:
    """Replace all records by these, with ids from 1; users that do not exist become null."""
    monitors = [
        one if (one["user_id"] or 0) <= len(persons) else {**one, "user_id": None}
        for one in monitors
    ]
    for name, records in (("persons", persons), ("monitors", monitors)):
        await database[name].delete_many({})
        if records:
            await database[name].insert_many(
                {"_id": number, **one} for number, one in enumerate(records, 1)
            )


def ids(window: Window) -> list[int]:
    return [record["_id"] for record in window.records]


@pytest.fixture
async def prepared(database: Database) -> Database:
    """A database with the collections and indexes of all types."""
    repository = Repository(database, GRAPH, Capacity.of(Settings()))
    await repository.prepare()
    await repository.catch_up()
    await repository.close()
    return database


@given(example=EXAMPLES)
@hypothesis_settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # examples share a database
)
async def test_pages_are_those_of_sorting_all_records_after_a_lookup(
    prepared: Database, example: Example
) -> None:
    await store(prepared, example.persons, example.monitors)
    reader = Reader(prepared, MONITORS, example.sort)
    reader.filters = example.filters
    expected = [id_ for id_, _ in await reader.expected()]
    page, start = example.page, (example.number - 1) * example.page.size
    with limited(**example.limits):
        pages = await reader.pages(page.size, page.backwards)
        numbered = await reader.window(NumberedPage(example.number, page.size, total=False))
        streamed = await reader.streamed(page.size)
    assert streamed == expected
    assert all(len(one) == page.size for one in pages[:-1])
    if page.backwards:
        pages.reverse()
    assert [id_ for one in pages for id_ in one] == expected
    assert ids(numbered) == expected[start : start + page.size]


async def test_keys_of_targets_that_do_not_exist_count_as_null_among_few_records(
    prepared: Database,
) -> None:
    await prepared.persons.insert_one({"_id": 1, "first_name": "A", "last_name": "A"})
    users = (1, 2, None)
    await prepared.monitors.insert_many(
        {"_id": number, "user_id": user} for number, user in enumerate(users, 1)
    )
    page = CursorPage(10, (reader := Reader(prepared, MONITORS, "user.last_name")).cursors)
    assert ids(await reader.window(page)) == [2, 3, 1]
    with limited(_MAX_SORTED=1):
        assert ids(await reader.window(page)) == [3, 1]


MANY, SIZE, OWNED = 10_000, 50, 500
"""Records of each type, records per page, and records of one person."""


@pytest.fixture
async def many(prepared: Database) -> Database:
    """All persons have different last names; ten share an e-mail address, and 1,000 a first name.

    A tenth of the monitors have no user, and one person uses OWNED of them.
    """
    await prepared.persons.insert_many(
        {
            "_id": number,
            "first_name": f"First {number % 10}",
            "last_name": f"Last {number * 7919 % MANY:05}",
            "email": f"{number % 1_000:04}@example.com",
        }
        for number in range(1, MANY + 1)
    )
    users = random.Random(1)  # noqa: S311 - the same in each run
    await prepared.monitors.insert_many(
        {
            "_id": number,
            "brand": f"Brand {number * 7919 % MANY:05}",
            "model": f"Model {number % 3}",
            "user_id": MANY // 2 if number % (MANY // OWNED) == 0 else users.randint(1, MANY),
        }
        for number in range(1, MANY + 1)
    )
    await prepared.monitors.update_many({"_id": {"$mod": [10, 1]}}, {"$set": {"user_id": None}})
    return prepared


async def cost(database: Database, read: Awaitable[Window]) -> tuple[Window, int, int]:
    """Return a page, the number of its commands, and of the keys and documents examined."""
    await database.command("profile", 2)
    window = await read
    await database.command("profile", 0)
    names = [f"{database.name}.{one}" for one in ("persons", "monitors")]
    profiles = await database.system.profile.find({"ns": {"$in": names}}).to_list(None)
    await database.system.profile.drop()
    assert not [one for one in profiles if "COLLSCAN" in one["planSummary"]]
    examined = sum(one["keysExamined"] + one["docsExamined"] for one in profiles)
    return window, len(profiles), examined


COSTS = {
    # Whether there are many; the user at the position, its other records; others with this name,
    # the next users; their records.
    "user.last_name": (6, 4_000),
    "-user.last_name": (9, 8_000),  # at the end there are few users, and a batch more
    # Others are looked for by each of both names, in descending order also without a name.
    "user.last_name,user.first_name": (10, 4_000),
    "user.id": (5, 4_000),
    "user.first_name": (6, 4_000),
    "-user.first_name": (9, 8_000),
    # The last record of the page by brand; up to it, records are joined and sorted.
    "brand,user.last_name": (9, 2_500),
}
"""The commands of a page, and the keys and documents that they examine, at most."""


async def test_a_page_costs_a_part_of_the_collection_wherever_it_is(many: Database) -> None:
    for sort, (most_commands, most_examined) in COSTS.items():
        reader = Reader(many, MONITORS, sort)
        expected = await reader.expected()
        for place in (0, MANY // 20, MANY // 3, MANY - 2 * SIZE):
            backwards = place > MANY // 4
            page = CursorPage(SIZE, reader.cursors, expected[place][1], backwards)
            window, commands, examined = await cost(many, reader.window(page))
            start = max(0, place - SIZE) if backwards else place + 1
            stop = place if backwards else start + SIZE
            assert ids(window) == [id_ for id_, _ in expected[start:stop]]
            assert commands <= most_commands, (sort, place)
            assert examined <= most_examined, (sort, place)


@pytest.fixture
async def pairs(prepared: Database) -> Database:
    """Persons with a monitor each, but for three monitors without a user. All first names equal."""
    await prepared.persons.insert_many(
        {"_id": number, "first_name": "Ada", "last_name": f"{number:04}"}
        for number in range(1, 2_001)
    )
    await prepared.monitors.insert_many(
        {"_id": number, "user_id": number if number > 3 else None} for number in range(1, 2_001)
    )
    return prepared


async def test_the_first_page_takes_three_commands(pairs: Database) -> None:
    for sort in ("user.last_name", "-user.last_name", "user.first_name"):
        reader = Reader(pairs, MONITORS, sort)
        window, commands, _ = await cost(pairs, reader.window(CursorPage(SIZE, reader.cursors)))
        assert ids(window) == [id_ for id_, _ in (await reader.expected())[:SIZE]]
        assert commands == 3  # whether the type is large, the first targets, their records


async def test_a_large_group_is_read_by_the_ids_of_targets(pairs: Database) -> None:
    reader = Reader(pairs, MONITORS, "-user.first_name")
    expected = [id_ for id_, _ in await reader.expected()]
    page = CursorPage(SIZE, reader.cursors, None)
    window = await reader.window(page)
    page = replace(page, position=window.last)
    window, commands, examined = await cost(pairs, reader.window(page))
    assert ids(window) == expected[SIZE : 2 * SIZE]
    # Whether the type is large; the target at the position, its records; targets, their records.
    assert commands == 5
    assert examined < 1_000 + 10 * SIZE


async def test_pages_continue_after_records_without_a_target(pairs: Database) -> None:
    for sort in ("user.last_name", "-user.last_name"):
        reader = Reader(pairs, MONITORS, sort)
        expected = [id_ for id_, _ in await reader.expected()]
        for place in (0, 1, 2, len(expected) - 3):
            position = (await reader.expected())[place][1]
            window = await reader.window(CursorPage(5, reader.cursors, position))
            assert ids(window) == expected[place + 1 : place + 6]


async def test_only_targets_with_records_are_read_if_few_have_any(pairs: Database) -> None:
    await pairs.monitors.update_many(
        {}, [{"$set": {"user_id": {"$add": [1, {"$mod": ["$_id", 9]}]}}}]
    )
    await pairs.persons.update_many({"_id": {"$lt": 10}}, {"$set": {"last_name": "9"}})
    reader = Reader(pairs, MONITORS, "user.last_name")
    with limited(MAX_BATCH=SIZE):
        window, commands, _ = await cost(pairs, reader.window(CursorPage(SIZE, reader.cursors)))
    assert ids(window) == [id_ for id_, _ in (await reader.expected())[:SIZE]]
    assert commands <= 7  # whether the type is large, two batches, and the targets with records


async def test_many_records_without_a_target_take_no_command_of_their_own(pairs: Database) -> None:
    await pairs.monitors.insert_many(
        {"_id": number, "user_id": None} for number in range(2_001, 12_001)
    )
    reader = Reader(pairs, MONITORS, "user.last_name")
    window, commands, examined = await cost(pairs, reader.window(CursorPage(SIZE, reader.cursors)))
    assert ids(window) == [id_ for id_, _ in (await reader.expected())[:SIZE]]
    assert commands == 3
    assert examined < 3_000


async def test_a_target_with_many_records_does_not_delay_others(pairs: Database) -> None:
    await pairs.monitors.update_many({"_id": {"$gt": 1_000}}, {"$set": {"user_id": 30}})
    for sort in ("user.last_name", "-user.last_name"):
        reader = Reader(pairs, MONITORS, sort)
        page = CursorPage(SIZE, reader.cursors, (await reader.expected())[10][1])
        with limited(_RECORDS_PER_RESULT=2, _EXTRA_TARGETS=0):
            window, _, examined = await cost(pairs, reader.window(page))
        assert ids(window) == [id_ for id_, _ in (await reader.expected())[11 : SIZE + 11]]
        assert examined < 3_000
