"""`page`: what the model of tests/consistency, which follows all links, does not show."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from bson.int64 import Int64

from registry.jsonapi.cursors import END, Cursors
from registry.jsonapi.sorting import BY_ID, parse_sort
from registry.model.graph import Graph
from registry.model.record import MAX_ID
from registry.resources import RESOURCES
from registry.settings import Settings
from tests.conftest import Serve
from tests.support import Api, Database, Response

GRAPH = Graph(RESOURCES)
END_OF_PERSONS = Cursors("person", BY_ID).encode(END)


@pytest.fixture
async def fleet(api: Api, database: Database) -> Api:
    """Persons 1 to 7; computers 1 to 5 belong to person 1, 6 and 7 to person 2, 8 to nobody."""
    await database.persons.insert_many(
        {"_id": number, "first_name": "Ann", "last_name": f"L{number}", "email": None}
        for number in range(1, 8)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": f"SN-{number}", "person": owner}
        for number, owner in enumerate([1, 1, 1, 1, 1, 2, 2, None], 1)
    )
    return api


async def follow(api: Api, response: Response, name: str) -> Response:
    """Get the page that a link leads to; the link must be absolute and percent-encoded."""
    link = response.document["links"][name]
    assert link.startswith(f"{api.origin}/")
    assert "[" not in link
    page = await api.get(link.removeprefix(api.origin))
    assert page.status == 200, page.document
    assert page.document["links"]["self"] == link
    return page


def ids(response: Response) -> str:
    return " ".join(response.ids)


@pytest.mark.parametrize(
    "path", ["/persons?sort=id", "/persons?sort=last_name,-email", "/computers?sort=owner.email"]
)
async def test_the_largest_page_number_is_an_empty_page(fleet: Api, path: str) -> None:
    for size, number in ((1, 2**63 - 1), (1000, (2**63 - 1) // 1000 + 1)):  # skips just under 2**63
        response = await fleet.get(f"{path}&page[number]={number}&page[size]={size}")
        assert (response.status, response.data) == (200, [])


async def test_cursors_at_either_end_return_empty_pages_with_a_link_back(fleet: Api) -> None:
    encode = Cursors("person", BY_ID).encode
    for member, cursor, onward, back, shown in (
        ("after", END_OF_PERSONS, "next", "prev", "5 6 7"),
        ("after", encode((7,)), "next", "prev", "5 6 7"),
        ("before", encode((1,)), "prev", "next", "1 2 3"),
    ):
        response = await fleet.get(f"/persons?page[size]=3&page[{member}]={cursor}")
        assert (response.data, response.document["links"][onward]) == ([], None)
        assert ids(await follow(fleet, response, back)) == shown


async def test_the_page_size_is_a_setting(
    serve: Serve, settings: Settings, database: Database
) -> None:
    api = await serve(settings=replace(settings, page_size=2))
    await database.persons.insert_many(
        {"_id": number, "first_name": "A", "last_name": "B"} for number in range(1, 8)
    )
    assert ids(await api.get("/persons?page[number]=1")) == "1 2"
    assert ids(await api.get(f"/persons?page[before]={END_OF_PERSONS}")) == "6 7"
    assert ids(await api.get("/persons?page[size]=4")) == "1 2 3 4"
    assert len((await api.get("/persons")).data) == 7


@pytest.mark.parametrize("sort", ["id", "-id", "email", "-email", "last_name,-first_name"])
async def test_a_cursor_need_not_match_a_stored_resource(fleet: Api, sort: str) -> None:
    order = parse_sort(sort, GRAPH["person"], GRAPH)
    is_by_id = order[0].stored_name == "_id"
    for value in (-1, 0, 2**63 - 1, None) if is_by_id else ("Hopper", "", "9", None):
        position = [1 if key.stored_name == "_id" and not is_by_id else value for key in order]
        cursor = Cursors("person", order).encode(tuple(position))
        for member in ("after", "before"):
            response = await fleet.get(f"/persons?sort={sort}&page[{member}]={cursor}")
            assert response.status == 200, value


@pytest.mark.parametrize("link", ["next", "prev"])
@pytest.mark.parametrize("sort", ["-email", "last_name,-first_name,email"])
async def test_unmodified_resources_appear_exactly_once_during_concurrent_writes(
    api: Api, database: Database, sort: str, link: str
) -> None:
    rng = random.Random(sort + link)  # noqa: S311 - the same writes in each run

    def person(number: int) -> dict[str, Any]:
        names = {name: rng.choice("abc") for name in ("first_name", "last_name")}
        return {
            "_id": number,
            "email": rng.choice([None, "a@b.example"]),
            "full_name": " ".join(names.values()),
            **names,
        }

    await database.persons.insert_many(person(number) for number in range(100, 180))
    mutable = set(rng.sample(range(100, 180), 40))
    visited: list[int] = []
    response = await api.get(f"/persons?sort={sort}&page[size]=3")
    response = response if link == "next" else await follow(api, response, "last")
    for number in rng.sample(range(1, 1000), 900):
        visited += [int(id_) for id_ in response.ids]
        modified = {"_id": {"$in": rng.sample(sorted(mutable), 3)}}
        await database.persons.update_many(
            modified, {"$set": {"last_name": rng.choice("abcd"), "email": None}}
        )
        # The last resource visited is the position of the cursor.
        await database.persons.delete_one({"_id": {"$in": [*mutable & set(visited[-3:])]}})
        if not await database.persons.find_one({"_id": number}):
            await database.persons.insert_one(person(number))
        if response.document["links"][link] is None:
            break
        response = await follow(api, response, link)
    else:
        pytest.fail("the links form a cycle")
    unmodified = set(range(100, 180)) - mutable
    assert sorted(number for number in visited if number in unmodified) == sorted(unmodified)


async def test_the_page_size_of_an_include_path_applies_to_that_path_only(fleet: Api) -> None:
    page = "page[owner.computers][size]=3"
    response = await fleet.get(f"/computers/1?include=owner.computers.owner&{page}")
    assert response.included == [("person", "1"), ("computer", "2"), ("computer", "3")]
    owner = response.document["included"][0]
    assert len(owner["relationships"]["computers"]["data"]) == 3


async def test_pages_at_the_largest_ids_are_right(api: Api, database: Database) -> None:
    stored = range(MAX_ID - 60, MAX_ID + 1)
    await database.computers.insert_many({"_id": Int64(one), "serial": "S"} for one in stored)
    for sort in ("id", "-id"):
        cursors = Cursors("computer", parse_sort(sort, GRAPH["computer"], GRAPH))
        for start, size in product((MAX_ID - 50, MAX_ID - 7, MAX_ID, -MAX_ID), (1, 7, 30)):
            after = cursors.encode((start,))
            page = await api.get(f"/computers?sort={sort}&page[size]={size}&page[after]={after}")
            beyond = [one for one in stored if (one > start if sort == "id" else one < start)]
            shown = beyond if sort == "id" else beyond[::-1]
            assert page.ids == list(map(str, shown[:size]))
