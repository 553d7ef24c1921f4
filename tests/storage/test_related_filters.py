"""The commands of filters by related attributes: their number, their plans and their limits."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from registry.storage.reads import listings
from tests.conftest import Serve
from tests.storage.profiling import Profile, profiled
from tests.storage.test_overload import bulkheads
from tests.support import Api, CommandLog, Database

COUNT = 3_000
FEW = "filter[owner.email]=7@example.com"
MANY = "filter[owner.last_name]=Hopper"
MANY_COMPUTERS = "filter[computers.serial][prefix]=A-"


@pytest.fixture
async def stored(serve: Serve, database: Database) -> Api:
    """Persons with one computer each; every second one is called Hopper."""
    api = await serve(heavy_queries=1, queue_length=0, queue_seconds=0.001)
    names = ("Liskov", "Hopper")
    await database.persons.insert_many(
        {
            "_id": number,
            "first_name": "",
            "last_name": names[number % 2],
            "full_name": "",
            "email": f"{number}@example.com",
        }
        for number in range(1, COUNT + 1)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": f"{'AB'[number % 2]}-{number}", "person": COUNT + 1 - number}
        for number in range(1, COUNT + 1)
    )
    return api


def in_json(*conditions: dict[str, Any]) -> str:
    return f"filter={quote(json.dumps(conditions))}"


async def test_a_few_related_resources_are_looked_up_first(
    stored: Api, commands: CommandLog
) -> None:
    commands.names()
    assert (await stored.get(f"/computers?{FEW}&page[size]=10")).ids == [str(COUNT - 6)]
    assert commands.names() == ["aggregate", "find"]


async def test_a_page_does_not_look_up_all_of_many_related_resources(
    stored: Api, database: Database
) -> None:
    profile = await profile_of(stored, database, f"/computers?{MANY}&page[size]=10")
    assert profile.returned == [1, 110, 55]


@pytest.mark.parametrize(
    "path",
    [
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
        "/persons?page[size]=10&"
        + in_json({"not": {"name": "computers", "op": "any", "val": {"and": []}}}),
        "/computers?page[size]=10&"
        + in_json(
            {
                "or": [
                    {"name": "owner.last_name", "op": "eq", "val": "Hopper"},
                    {"name": "serial", "op": "eq", "val": "A-8"},
                ]
            }
        ),
    ],
)
async def test_no_query_scans_a_collection(
    stored: Api, database: Database, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(listings, "_MAX_TOTAL_IDS", COUNT)
    profile = await profile_of(stored, database, path)
    assert profile
    assert not profile.scans_collection


async def profile_of(api: Api, database: Database, path: str) -> Profile:
    """Return the commands of a request."""
    async with profiled(database, "persons", "computers") as profile:
        response = await api.get(path)
    assert response.status == 200, response.document
    return profile


@pytest.mark.parametrize(
    ("path", "is_heavy"),
    [
        (f"/computers?{FEW}&page[size]=10", False),
        (f"/computers?{FEW}", False),
        ("/persons?filter[computers.serial]=A-8&page[size]=10", False),
        ("/persons/7/computers?filter[owner.last_name]=Hopper", True),
        (f"/computers?{MANY}&page[size]=10", True),
        (f"/computers?{MANY}", True),
        ("/computers?filter[owner.email][contains]=7&page[size]=10", True),
        (f"/computers?{FEW}&page[number]=1", False),
    ],
)
async def test_filters_that_few_related_resources_match_are_not_heavy(
    stored: Api, path: str, is_heavy: bool
) -> None:
    async with bulkheads(stored).heavy_queries:
        response = await stored.get(path)
    assert response.status == (503 if is_heavy else 200)
    assert (await stored.get(path)).status == 200
