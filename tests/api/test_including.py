"""`include` and compound documents: section 4.8, and JSON:API 1.0, Compound Documents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support import Api, CommandLog, Database, linkage_of, to_many


@pytest.fixture
async def fleet(api: Api) -> Api:
    """Grace owns computers 1 and 2, Ada owns 3, nobody owns 4; Alan owns none."""
    for name in ("Grace", "Ada", "Alan"):
        await api.person(name)
    for serial, owner in (("SN-1", "1"), ("SN-2", "1"), ("SN-3", "2"), ("SN-4", None)):
        await api.computer(serial, owner)
    return api


def linkage(data: list[Any], name: str) -> dict[str, Any]:
    return {resource["id"]: resource["relationships"][name]["data"] for resource in data}


async def test_a_collection_of_computers_includes_their_owners(fleet: Api) -> None:
    response = await fleet.get("/computers?include=owner")
    assert linkage(response.data, "owner") == {
        "1": {"type": "person", "id": "1"},
        "2": {"type": "person", "id": "1"},
        "3": {"type": "person", "id": "2"},
        "4": None,
    }
    assert response.included == [("person", "1"), ("person", "2")]
    assert response.document["included"][0]["attributes"]["full_name"] == "Grace Hopper"
    assert response.document["meta"] == {"count": 4}
    assert response.document.keys() == {"data", "included", "jsonapi", "links", "meta"}


async def test_a_collection_of_persons_includes_their_computers(fleet: Api) -> None:
    response = await fleet.get("/persons?include=computers")
    assert linkage(response.data, "computers") == {
        "1": to_many("1", "2")["data"],
        "2": to_many("3")["data"],
        "3": [],
    }
    assert response.included == [("computer", "1"), ("computer", "2"), ("computer", "3")]
    assert "relationships" not in response.document["included"][0]


@pytest.mark.parametrize(
    "path",
    ["/computers/4?include=owner", "/persons/3?include=computers.owner", "/persons?include="],
)
async def test_an_include_without_results_is_an_empty_array(fleet: Api, path: str) -> None:
    assert (await fleet.get(path)).document["included"] == []


async def test_a_missing_owner_does_not_shift_the_owners_of_other_computers(
    fleet: Api, database: Database
) -> None:
    """External writers may leave an owner key that refers to no person."""
    await database.persons.delete_one({"_id": 1})
    response = await fleet.get("/computers?include=owner")
    assert linkage(response.data, "owner") == {
        "1": None,
        "2": None,
        "3": {"type": "person", "id": "2"},
        "4": None,
    }
    assert response.included == [("person", "2")]


@pytest.mark.parametrize(
    ("path", "queries", "included"),
    [
        ("/computers/1?include=owner", ["computers", "persons"], 1),
        ("/persons/1?include=computers", ["persons", "computers"], 3),
        ("/persons/1?include=computers.owner", ["persons", "computers"], 3),
        ("/computers/1?include=owner.computers", ["computers", "persons", "computers"], 3),
        ("/computers?include=owner", ["counters", "computers", "persons"], 300),
        ("/persons?include=computers", ["counters", "persons", "computers"], 900),
        ("/persons?include=computers.owner", ["counters", "persons", "computers"], 900),
        (
            "/computers?include=owner.computers.owner",
            ["counters", "computers", "persons", "computers"],
            300,
        ),
    ],
)
async def test_each_step_of_an_include_path_is_one_query(  # a stream asks for the time first
    commands: CommandLog, api: Api, database: Database, path: str, queries: list[str], included: int
) -> None:
    await database.persons.insert_many(
        {"_id": number, "first_name": "F", "last_name": "L"} for number in range(1, 301)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": "x", "person": number % 300 + 1} for number in range(1, 901)
    )
    commands.take("find")
    response = await api.get(path)
    assert commands.take("find") == queries
    assert len(response.document["included"]) == included


PATHS = "include=computers.owner.computers"


@pytest.mark.parametrize(
    ("sizes", "linked"),
    [
        ("", ["1", "2", "3"]),
        ("&page[computers.owner.computers][size]=1", ["1", "2", "3"]),
        ("&page[computers][size]=1", ["1", "2", "3"]),
        ("&page[computers][size]=1&page[computers.owner.computers][size]=2", ["1", "2"]),
        ("&page[computers][size]=2&page[computers.owner.computers][size]=1", ["1", "2"]),
    ],
)
async def test_a_resource_that_two_paths_reach_shows_the_larger_page(
    api: Api, sizes: str, linked: list[str]
) -> None:
    owner = await api.person()
    for number in range(3):
        await api.computer(f"SN-{number}", owner)
    response = await api.get(f"/persons/{owner}?{PATHS}{sizes}")
    assert linkage_of(response.data)["computers"] == to_many(*linked)
    assert response.included == [("computer", id_) for id_ in linked]
    collection = await api.get(f"/persons?{PATHS}{sizes}&page[size]=1")
    assert collection.data == [response.data]
    assert collection.document["included"] == response.document["included"]


async def test_a_document_shows_one_point_in_time_while_links_change(api: Api) -> None:
    owner = await api.person("Grace", "0")
    computers = [await api.computer(f"SN-{number}") for number in range(4)]
    stopped = False

    async def write() -> None:
        count = 0
        while not stopped:
            count += 1
            chosen = computers[: count % 4]
            data = {
                "type": "person",
                "attributes": {"last_name": str(len(chosen))},
                "relationships": {"computers": to_many(*chosen)},
            }
            assert (await api.patch(f"/persons/{owner}", data)).status == 200

    writer = asyncio.create_task(write())
    paths = [f"/persons/{owner}?include=computers", "/persons?include=computers"]
    for _ in range(50):
        for response in await asyncio.gather(*map(api.get, paths)):
            (person,) = response.data if isinstance(response.data, list) else [response.data]
            count = int(person["attributes"]["last_name"])
            assert linkage_of(person)["computers"] == to_many(*computers[:count])
            assert response.included == [("computer", id_) for id_ in computers[:count]]
    stopped = True
    await writer
