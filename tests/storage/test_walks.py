"""Pages along the ids, of which different ones leave together."""

from __future__ import annotations

import asyncio
import random

import pytest

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
