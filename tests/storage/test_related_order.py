"""Sorting by fields of related resources: as `$lookup` and `$sort` do, at the cost of a page."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from marshmallow import Schema

from registry.jsonapi.cursors import Cursors, Position
from registry.jsonapi.sorting import parse_sort, sort_names
from registry.model.attributes import Text
from registry.model.graph import Graph
from registry.model.resource_type import Link, ResourceType
from registry.resources import RESOURCES
from registry.storage.reads import listings, related_reads
from tests.conftest import Serve
from tests.storage.profiling import Profile, profiled
from tests.support import Api, Database


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
FILTERS: dict[str, dict[str, Any]] = {
    "": {},
    "filter[brand]=A": {"brand": "A"},
    "filter[brand][ne]=null&filter[model][ge]=A": {"brand": {"$ne": None}, "model": {"$gte": "A"}},
    "filter[user]=1": {"user_id": 1},
    "filter[user]=null": {"user_id": None},
    "filter[user]=1,2,null": {"user_id": {"$in": [1, 2, None]}},
    "filter[user][ne]=1": {"user_id": {"$ne": 1}},
    "filter[user][gt]=2": {"user_id": {"$gt": 2}},
}
"""Filters, each with the query of MongoDB that it stands for."""

LIMITS = st.fixed_dictionaries(
    {
        "_MAX_SORTED": st.integers(0, 2),
        "MAX_BATCH": st.integers(1, 8),
        "_RECORDS_PER_RESULT": st.integers(2, 3),
        "_EXTRA_TARGETS": st.integers(0, 3),
        "_MAX_IDS": st.integers(0, 8),
    }
)
"""Low limits, so that small data take every path."""


@contextmanager
def limited(**limits: int) -> Iterator[None]:
    """Replace limits of the module, by name."""
    with ExitStack() as patches:
        for name, limit in limits.items():
            patches.enter_context(patch.object(related_reads, name, limit))
        yield


async def expected(
    database: Database, sort: str, query: dict[str, Any] | None = None
) -> list[tuple[str, Position]]:
    """Return the ids and the positions of all monitors, sorted after a `$lookup`."""
    order = parse_sort(sort, MONITORS, GRAPH)
    stages: Records = [{"$match": query or {}}]
    for relationship in {key.relationship for key in order if key.relationship}:
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
        for key in order
    ]
    directions = [-1 if key.descending else 1 for key in order]
    values = [{"$ifNull": [f"${path}", None]} for path in paths]
    stages += [
        {"$sort": dict(zip(paths, directions, strict=True))},
        {"$project": {"position": values}},
    ]
    found = await database.monitors.aggregate(stages).to_list(None)
    return [(str(record["_id"]), tuple(record["position"])) for record in found]


def page_path(sort: str, size: int, position: Position | None = None, member: str = "after") -> str:
    """Return the path of a page. position: of the record after or before which it begins."""
    path = f"/monitors?sort={sort}&page[size]={size}"
    if position is None:
        return path
    cursor = Cursors("monitor", parse_sort(sort, MONITORS, GRAPH)).encode(position)
    return f"{path}&page[{member}]={cursor}"


async def store(database: Database, persons: Records, monitors: Records) -> None:
    """Replace all records by these, with ids from 1; users that do not exist become null."""
    for one in persons:
        one["full_name"] = f"{one['first_name']} {one['last_name']}"
    monitors = [
        one if (one["user_id"] or 0) <= len(persons) else {**one, "user_id": None}
        for one in monitors
    ]
    for name, records in (("persons", persons), ("monitors", monitors)):
        await database[name].delete_many({})
        await database[name].insert_many(
            {"_id": number, **one} for number, one in enumerate(records, 1)
        )


@pytest.fixture
async def api(serve: Serve) -> Api:
    """A service with monitors."""
    return await serve((*RESOURCES, MONITOR))


@given(
    records=st.tuples(PERSONS, RECORDS),
    query=st.tuples(ORDERS, st.sampled_from(list(FILTERS))),
    size=st.integers(1, 7),
    limits=LIMITS,
)
@hypothesis_settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # examples share a database
)
async def test_pages_are_those_of_sorting_all_records_after_a_lookup(
    api: Api,
    database: Database,
    records: tuple[Records, Records],
    query: tuple[str, str],
    size: int,
    limits: dict[str, int],
) -> None:
    await store(database, *records)
    sort, filters = query
    ids = [id_ for id_, _ in await expected(database, sort, FILTERS[filters])]
    path = f"{page_path(sort, size)}&{filters}"
    with limited(**limits), patch.object(listings, "CHUNK", size):
        pages = [page.ids for page in await api.pages(path)]
        last = (await api.get(path)).document["links"]["last"].removeprefix(api.origin)
        backwards = [page.ids for page in await api.pages(last, "prev")]
        numbered = await api.get(f"{path}&page[number]=2&page[total]=false")
        streamed = await api.get(f"/monitors?sort={sort}&{filters}")
    assert streamed.ids == ids
    assert pages == [ids[at : at + size] for at in range(0, len(ids), size) or [0]]
    assert [id_ for page in reversed(backwards) for id_ in page] == ids
    assert numbered.ids == ids[size : 2 * size]


async def test_keys_of_targets_that_do_not_exist_count_as_null_among_few_records(
    api: Api, database: Database
) -> None:
    await database.persons.insert_one({"_id": 1, "first_name": "A", "last_name": "A"})
    users = (1, 2, None)
    await database.monitors.insert_many(
        {"_id": number, "user_id": user} for number, user in enumerate(users, 1)
    )
    path = page_path("user.last_name", 10)
    assert (await api.get(path)).ids == ["2", "3", "1"]
    with limited(_MAX_SORTED=1):
        assert (await api.get(path)).ids == ["3", "1"]


MANY, SIZE, OWNED = 10_000, 50, 500
"""Records of each type, records per page, and records of one person."""


@pytest.fixture
async def many(api: Api, database: Database) -> Api:
    """All persons have different last names; ten share an e-mail address, and 1,000 a first name.

    A tenth of the monitors have no user, and one person uses OWNED of them.
    """
    await database.persons.insert_many(
        {
            "_id": number,
            "first_name": f"First {number % 10}",
            "last_name": f"Last {number * 7919 % MANY:05}",
            "email": f"{number % 1_000:04}@example.com",
        }
        for number in range(1, MANY + 1)
    )
    users = random.Random(1)  # noqa: S311 - the same in each run
    await database.monitors.insert_many(
        {
            "_id": number,
            "brand": f"Brand {number * 7919 % MANY:05}",
            "model": f"Model {number % 3}",
            "user_id": MANY // 2 if number % (MANY // OWNED) == 0 else users.randint(1, MANY),
        }
        for number in range(1, MANY + 1)
    )
    await database.monitors.update_many({"_id": {"$mod": [10, 1]}}, {"$set": {"user_id": None}})
    return api


async def checked(api: Api, database: Database, path: str, ids: list[str]) -> Profile:
    """Check the ids of a page; return its commands, none of which scans a collection."""
    async with profiled(database, "persons", "monitors") as profile:
        page = await api.get(path)
    assert page.ids == ids
    assert not profile.scans_collection
    return profile


def examined(profile: Profile) -> int:
    return profile.total("keysExamined") + profile.total("docsExamined")


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


@pytest.mark.parametrize("sort", COSTS)
async def test_a_page_costs_a_part_of_the_collection_wherever_it_is(
    many: Api, database: Database, sort: str
) -> None:
    most_commands, most_examined = COSTS[sort]
    sorted_ = await expected(database, sort)
    ids = [id_ for id_, _ in sorted_]
    for place in (0, MANY // 20, MANY // 3, MANY - 2 * SIZE):
        member, start = ("before", place - SIZE) if place > MANY // 4 else ("after", place + 1)
        path = page_path(sort, SIZE, sorted_[place][1], member)
        profile = await checked(many, database, path, ids[start : start + SIZE])
        assert len(profile) <= most_commands, place
        assert examined(profile) <= most_examined, place


@pytest.fixture
async def pairs(api: Api, database: Database) -> Api:
    """Persons with a monitor each, but for three monitors without a user. All first names equal."""
    await database.persons.insert_many(
        {"_id": number, "first_name": "Ada", "last_name": f"{number:04}"}
        for number in range(1, 2_001)
    )
    await database.monitors.insert_many(
        {"_id": number, "user_id": number if number > 3 else None} for number in range(1, 2_001)
    )
    return api


async def first_page(api: Api, database: Database, sort: str) -> Profile:
    """Check the first page; return its commands."""
    ids = [id_ for id_, _ in await expected(database, sort)]
    return await checked(api, database, page_path(sort, SIZE), ids[:SIZE])


async def test_a_page_of_many_records_without_a_target_reads_no_targets(
    pairs: Api, database: Database
) -> None:
    await database.monitors.insert_many(
        {"_id": number, "user_id": None} for number in range(2_001, 12_001)
    )
    profile = await first_page(pairs, database, "user.last_name")
    assert len(profile) == 2
    assert examined(profile) < 3_000


@pytest.mark.parametrize("sort", ["user.last_name", "-user.last_name"])
async def test_a_target_with_many_records_does_not_delay_others(
    pairs: Api, database: Database, sort: str
) -> None:
    await database.monitors.update_many({"_id": {"$gt": 1_000}}, {"$set": {"user_id": 30}})
    sorted_ = await expected(database, sort)
    path = page_path(sort, SIZE, sorted_[10][1])
    ids = [id_ for id_, _ in sorted_[11 : SIZE + 11]]
    with limited(_RECORDS_PER_RESULT=2, _EXTRA_TARGETS=0):
        assert examined(await checked(pairs, database, path, ids)) < 3_000
