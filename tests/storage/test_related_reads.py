"""Filters and orders by fields of related resources: commands, plans and costs."""

import random
from typing import Any

import pytest

from registry.jsonapi.pagination import Cursors, Position, parse_sort
from registry.model.graph import Graph
from registry.resources import RESOURCES
from tests.conftest import Serve
from tests.storage.limits import limited
from tests.storage.profiling import Profile, profiled
from tests.support import Api, CommandLog, Database, bulkheads, complete_record

COUNT = 3_000
FEW = "filter[owner.email]=7@example.com"
MANY = "filter[owner.last_name]=Hopper"
MANY_COMPUTERS = "filter[computers.serial][prefix]=A-"


@pytest.fixture
async def stored(serve: Serve, database: Database) -> Api:
    """Persons with one computer each; every second one is called Hopper."""
    api = await serve(heavy_requests=1, queue_length=0, queue_seconds=0.001)
    names = ("Liskov", "Hopper")
    await database.persons.insert_many(
        complete_record(
            {
                "_id": number,
                "first_name": "",
                "last_name": names[number % 2],
                "full_name": "",
                "email": f"{number}@example.com",
            }
        )
        for number in range(1, COUNT + 1)
    )
    await database.computers.insert_many(
        complete_record(
            {"_id": number, "serial": f"{'AB'[number % 2]}-{number}", "person": COUNT + 1 - number}
        )
        for number in range(1, COUNT + 1)
    )
    return api


@pytest.mark.budget
async def test_a_few_related_resources_are_looked_up_first(
    stored: Api, commands: CommandLog
) -> None:
    commands.names()
    assert (await stored.get(f"/computers?{FEW}&page[size]=10")).ids == [str(COUNT - 6)]
    assert commands.names() == ["aggregate", "find"]


async def test_a_page_does_not_look_up_all_of_many_related_resources(
    stored: Api, database: Database
) -> None:
    with limited(MAX_IDS=1_000):
        profile = await profile_of(stored, database, f"/computers?{MANY}&page[size]=10")
    # There are more than the limit; 100 records, their owners, and which of the records match.
    assert profile.returned == [1, 110, 55, 55]


PATHS = [
    f"/computers?{FEW}",
    f"/computers?{FEW}&page[size]=10",
    f"/computers?{FEW}&sort=-serial&page[size]=10",
    "/computers?filter[owner.email][prefix]=7&page[size]=10",
    f"/computers?{MANY}",
    f"/computers?{MANY}&page[size]=10",
    f"/computers?{MANY}&sort=-serial&page[size]=10",
    f"/computers?{MANY}&page[number]=2&page[size]=10",
    f"/computers?{MANY}&filter[serial][prefix]=A-7&page[size]=10",
    f"/persons?{MANY_COMPUTERS}",
    f"/persons?{MANY_COMPUTERS}&page[size]=10",
    f"/persons?{MANY_COMPUTERS}&page[number]=1&page[size]=10",
    "/persons?filter[computers.serial]=A-8&page[size]=10",
    "/persons/7/computers?filter[owner.last_name]=Hopper&page[size]=10",
    '/persons?page[size]=10&filter=[{"not":{"name":"computers","op":"any","val":{"and":[]}}}]',
    '/computers?page[size]=10&filter=[{"or":[{"name":"owner.last_name","op":"eq","val":"Hopper"},'
    '{"name":"serial","op":"eq","val":"A-8"}]}]',
]


async def test_no_query_scans_a_collection(stored: Api, database: Database) -> None:
    for path in PATHS:
        profile = await profile_of(stored, database, path)
        assert profile
        assert not profile.scans_collection, path


async def profile_of(api: Api, database: Database, path: str) -> Profile:
    """Return the commands of a request."""
    async with profiled(database, "persons", "computers") as profile:
        response = await api.get(path)
    assert response.status == 200, response.document
    return profile


async def test_filters_that_few_related_resources_match_are_not_heavy(stored: Api) -> None:
    for path, is_heavy in (
        (f"/computers?{FEW}&page[size]=10", False),
        (f"/computers?{FEW}", False),
        ("/persons?filter[computers.serial]=A-8&page[size]=10", False),
        ("/persons/7/computers?filter[owner.last_name]=Hopper", True),
        (f"/computers?{MANY}&page[size]=10", True),
        (f"/computers?{MANY}", True),
        ("/computers?filter[owner.email][contains]=7&page[size]=10", True),
        (f"/computers?{FEW}&page[number]=1", False),
    ):
        async with bulkheads(stored).heavy_requests:
            response = await stored.get(path)
        assert response.status == (503 if is_heavy else 200), path
        assert (await stored.get(path)).status == 200


GRAPH = Graph(RESOURCES)

RECORDS, SIZE, OWNED = 10_000, 50, 500
"""Records of each type, records per page, and records of one person."""


async def expected(database: Database, sort: str) -> list[tuple[str, Position]]:
    """Return the ids and the positions of all computers, sorted in Python."""
    persons: dict[Any, Any] = {person["_id"]: person async for person in database.persons.find()}
    order = parse_sort(sort, GRAPH["computer"], GRAPH)
    computers = []
    async for computer in database.computers.find():
        owner = persons.get(computer["person"], {})
        fields = [owner if key.relationship else computer for key in order]
        values = [each.get(key.stored_name) for each, key in zip(fields, order, strict=True)]
        computers.append((str(computer["_id"]), tuple(values)))
    for number in reversed(range(len(order))):
        computers.sort(
            key=lambda pair: (pair[1][number] is not None, pair[1][number]),
            reverse=order[number].descending,
        )
    return computers


def page_path(sort: str, size: int, position: Position | None = None, member: str = "after") -> str:
    """Return the path of a page. position: of the record after or before which it begins."""
    path = f"/computers?sort={sort}&page[size]={size}"
    if position is None:
        return path
    cursor = Cursors("computer", parse_sort(sort, GRAPH["computer"], GRAPH)).encode(position)
    return f"{path}&page[{member}]={cursor}"


async def test_few_records_sort_missing_targets_as_null(api: Api, database: Database) -> None:
    await database.persons.insert_one(
        complete_record({"_id": 1, "first_name": "A", "last_name": "A"})
    )
    await insert_computers(database, {1: 1, 2: 2, 3: None})
    path = page_path("owner.last_name", 10)
    assert (await api.get(path)).ids == ["2", "3", "1"]
    with limited(_MAX_SORTED=1):
        assert (await api.get(path)).ids == ["3", "1"]


async def insert_computers(database: Database, owners: dict[int, int | None]) -> None:
    await database.computers.insert_many(
        complete_record(
            {"_id": number, "serial": f"SN {number * 7919 % RECORDS:05}", "person": owner}
        )
        for number, owner in owners.items()
    )


@pytest.fixture
async def many(api: Api, database: Database) -> Api:
    """All persons have different last names; 1,000 share a first name.

    A tenth of the computers have no owner, and one person owns OWNED of them.
    """
    await database.persons.insert_many(
        complete_record(
            {
                "_id": number,
                "first_name": f"First {number % 10}",
                "last_name": f"Last {number * 7919 % RECORDS:05}",
            }
        )
        for number in range(1, RECORDS + 1)
    )
    users = random.Random(1)  # noqa: S311 - the same in each run
    owners: dict[int, int | None] = {}
    for number in range(1, RECORDS + 1):
        owner = RECORDS // 2 if number % (RECORDS // OWNED) == 0 else users.randint(1, RECORDS)
        owners[number] = None if number % 10 == 1 else owner
    await insert_computers(database, owners)
    return api


async def checked(api: Api, database: Database, path: str, ids: list[str]) -> Profile:
    """Check the ids of a page; return its commands, none of which scans a collection."""
    async with profiled(database, "persons", "computers") as profile:
        page = await api.get(path)
    assert page.ids == ids
    assert not profile.scans_collection
    return profile


def examined(profile: Profile) -> int:
    return profile.total("keysExamined") + profile.total("docsExamined")


COSTS = {
    # Whether there are many; the owner at the position, its other records; others with this name,
    # the next owners; their records.
    "owner.last_name": (6, 4_000),
    "-owner.last_name": (9, 8_000),  # at the end there are few owners, and a batch more
    # Others are looked for by each of both names, in descending order also without a name.
    "owner.last_name,owner.first_name": (10, 4_000),
    "owner.id": (5, 4_000),
    "owner.first_name": (6, 4_000),
    "-owner.first_name": (9, 8_000),
    # The last record of the page by serial; up to it, records are joined and sorted.
    "serial,owner.last_name": (9, 2_500),
}
"""The commands of a page, and the keys and documents that they examine, at most."""


@pytest.mark.parametrize(
    "sort",
    [pytest.param(sort, marks=pytest.mark.slow if "first_name" in sort else ()) for sort in COSTS],
)
async def test_any_page_costs_only_a_part_of_the_collection(
    many: Api, database: Database, sort: str
) -> None:
    most_commands, most_examined = COSTS[sort]
    sorted_ = await expected(database, sort)
    ids = [id_ for id_, _ in sorted_]
    for place in (0, RECORDS // 20, RECORDS // 3, RECORDS - 2 * SIZE):
        member, start = ("before", place - SIZE) if place > RECORDS // 4 else ("after", place + 1)
        path = page_path(sort, SIZE, sorted_[place][1], member)
        profile = await checked(many, database, path, ids[start : start + SIZE])
        assert len(profile) <= most_commands, place
        assert examined(profile) <= most_examined, place


@pytest.fixture
async def pairs(api: Api, database: Database) -> Api:
    """Persons with a computer each, but for three computers without an owner."""
    await database.persons.insert_many(
        complete_record({"_id": number, "first_name": "Ada", "last_name": f"{number:04}"})
        for number in range(1, 2_001)
    )
    numbers = range(1, 2_001)
    await insert_computers(database, {value: value if value > 3 else None for value in numbers})
    return api


async def test_a_page_of_many_records_without_a_target_reads_no_targets(
    pairs: Api, database: Database
) -> None:
    await insert_computers(database, dict.fromkeys(range(2_001, 12_001)))
    ids = [id_ for id_, _ in await expected(database, "owner.last_name")]
    profile = await checked(pairs, database, page_path("owner.last_name", SIZE), ids[:SIZE])
    assert len(profile) == 2
    assert examined(profile) < 3_000


@pytest.mark.parametrize("sort", ["owner.last_name", "-owner.last_name"])
async def test_a_target_with_many_records_does_not_delay_others(
    pairs: Api, database: Database, sort: str
) -> None:
    await database.computers.update_many({"_id": {"$gt": 1_000}}, {"$set": {"person": 30}})
    sorted_ = await expected(database, sort)
    path = page_path(sort, SIZE, sorted_[10][1])
    ids = [id_ for id_, _ in sorted_[11 : SIZE + 11]]
    with limited(RECORDS_PER_RESULT=2, _EXTRA_TARGETS=0):
        assert examined(await checked(pairs, database, path, ids)) < 3_000
