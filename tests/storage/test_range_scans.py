"""Pages along the ids, of which different ones leave together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from bson.int64 import Int64

from registry.jsonapi.cursors import Cursors
from registry.jsonapi.sorting import BY_ID
from registry.model.record import MAX_ID
from tests.support import Api, CommandLog, Database

COUNT = 500


@pytest.fixture
async def numbered(api: Api, database: Database) -> list[int]:
    """Computers whose ids have gaps; the ids."""
    ids = sorted(random.Random(3).sample(range(1, 3 * COUNT), COUNT))  # noqa: S311 - the same ones
    await database.computers.insert_many({"_id": one, "serial": f"S{one}"} for one in ids)
    assert (await api.get("/computers?page[size]=1")).status == 200
    return ids


async def test_each_page_is_its_own_though_they_leave_together(
    api: Api, numbered: list[int], commands: CommandLog
) -> None:
    asked = [(sign, size) for sign in ("", "-") for size in range(1, 31)]
    first = await asyncio.gather(
        *(api.get(f"/computers?sort={sign}id&page[size]={size}") for sign, size in asked)
    )
    starts = [answer.document["links"]["next"].partition("/computers")[2] for answer in first]
    commands.take("all")
    pages = await asyncio.gather(*(api.get(f"/computers{start}") for start in starts))
    for (sign, size), page in zip(asked, pages, strict=True):
        order = numbered[::-1] if sign else numbered
        assert [int(one["id"]) for one in page.data] == order[size : 2 * size]
        assert list(page.data[0]) == ["type", "id", "attributes", "links"]
    assert len(commands.take("find")) <= 2, "60 pages, one of which leaves at once"


def page_path(sign: str, start: int, size: int) -> str:
    """Return the path of the page of computers that follows an id in this direction."""
    order = (replace(BY_ID[0], descending=bool(sign)),)
    cursor = Cursors("computer", order).encode((start,))
    return f"/computers?sort={sign}id&page[size]={size}&page[after]={cursor}"


async def pages(api: Api, asked: Sequence[tuple[str, int, int]]) -> list[list[str]]:
    """Return the ids of pages that are asked for at once, each after an id in a direction."""
    answers = await asyncio.gather(*(api.get(page_path(*one)) for one in asked))
    return [[one["id"] for one in answer.data] for answer in answers]


def wanted(stored: Iterable[float], asked: Sequence[tuple[str, int, int]]) -> list[list[str]]:
    """Return the ids that belong to each page."""
    found = []
    for sign, start, size in asked:
        beyond = sorted(one for one in stored if (one < start if sign else one > start))
        found.append([f"{one}" for one in (beyond[::-1] if sign else beyond)[:size]])
    return found


ASKED = [
    (sign, start, size) for sign in ("", "-") for start in (1, 40, 130, 290) for size in (1, 7, 30)
]


async def test_pages_of_which_no_id_is_missing_are_found_as_ranges(
    api: Api, database: Database, commands: CommandLog
) -> None:
    await database.computers.insert_many({"_id": one, "serial": "S"} for one in range(-50, 400))
    commands.take("all")
    assert await pages(api, ASKED) == wanted(range(-50, 400), ASKED)
    assert set(commands.names()) == {"find"}


async def test_pages_are_right_while_ids_go_missing_and_come_back(
    api: Api, database: Database, commands: CommandLog
) -> None:
    computers = database.computers
    await computers.insert_many({"_id": one, "serial": "S"} for one in range(-50, 400))
    for gone in ([7], range(30, 350, 3), range(-50, 400, 2)):
        await computers.delete_many({"_id": {"$in": list(gone)}})
        left = [record["_id"] for record in await computers.find().to_list(None)]
        for _ in range(2):
            assert await pages(api, ASKED) == wanted(left, ASKED)
        await computers.insert_many(
            {"_id": one, "serial": "S"} for one in {*range(-50, 400)} - {*left}
        )
    await pages(api, ASKED)
    commands.take("all")
    assert await pages(api, ASKED) == wanted(range(-50, 400), ASKED)
    assert set(commands.names()) == {"find"}


async def test_what_other_tools_store_between_two_ids_has_its_place(
    api: Api, database: Database
) -> None:
    stored = [*range(1, 200), 41.5, 120.25]
    await database.computers.insert_many({"_id": one, "serial": "S"} for one in stored)
    assert await pages(api, ASKED) == wanted(stored, ASKED)


async def test_pages_at_the_largest_ids_are_right(api: Api, database: Database) -> None:
    stored = range(MAX_ID - 60, MAX_ID + 1)
    await database.computers.insert_many({"_id": Int64(one), "serial": "S"} for one in stored)
    starts = (MAX_ID - 50, MAX_ID - 7, MAX_ID, -MAX_ID)
    asked = [(sign, start, size) for sign in ("", "-") for start in starts for size in (1, 7, 30)]
    assert await pages(api, asked) == wanted(stored, asked)


async def test_a_page_that_is_picked_or_sorted_otherwise_is_a_query_of_its_own(
    api: Api,
    numbered: list[int],  # noqa: ARG001 - what is listed
    commands: CommandLog,
) -> None:
    asked = [f"/computers?sort=serial&page[size]={size}" for size in range(1, 9)]
    asked += [f"/computers?filter[serial][prefix]=S{number}&page[size]=2" for number in range(1, 9)]
    commands.take("all")
    await asyncio.gather(*(api.get(path) for path in asked))
    assert len(commands.take("find")) == len(asked)


async def test_a_walk_sorted_by_the_id_of_a_related_resource_is_none_along_the_ids(
    api: Api, database: Database
) -> None:
    await database.persons.insert_many(
        {"_id": number, "first_name": "A", "last_name": "B"} for number in (1, 2)
    )
    await database.computers.insert_many(
        {"_id": number, "serial": "S", "person": owner}
        for number, owner in ((1, 2), (2, 1), (3, None))
    )
    answer = await api.get("/computers?sort=owner.id&page[size]=3")
    assert [one["id"] for one in answer.data] == ["3", "2", "1"]
