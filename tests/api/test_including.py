"""`include` and compound documents: section 4.8, and JSON:API 1.0, Compound Documents."""

from __future__ import annotations

import pytest

from tests.support import Api, CommandLog, Database, linkage_of, to_many

STEPS = [
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
]
"""What is read from which collections, and how many resources are included.

A stream asks for the time first.
"""


async def test_each_step_of_an_include_path_is_one_query(
    commands: CommandLog, api: Api, database: Database
) -> None:
    await database.persons.insert_many(
        {"_id": number, "first_name": "F", "last_name": "L"} for number in range(1, 301)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": "x", "person": number % 300 + 1} for number in range(1, 901)
    )
    for path, queries, included in STEPS:
        commands.take("find")
        response = await api.get(path)
        assert commands.take("find") == queries, path
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
async def test_the_larger_of_two_pages_is_shown(api: Api, sizes: str, linked: list[str]) -> None:
    owner = await api.person()
    for number in range(3):
        await api.computer(f"SN-{number}", owner)
    response = await api.get(f"/persons/{owner}?{PATHS}{sizes}")
    assert linkage_of(response.data)["computers"] == to_many(*linked)
    assert response.included == [("computer", id_) for id_ in linked]
    collection = await api.get(f"/persons?{PATHS}{sizes}&page[size]=1")
    assert collection.data == [response.data]
    assert collection.document["included"] == response.document["included"]
