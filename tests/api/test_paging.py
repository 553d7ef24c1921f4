"""`page`: what the model of tests/consistency, which follows all links, does not show."""

import asyncio
import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from bson.int64 import Int64

from registry.jsonapi.pagination import BY_ID, END, Cursors, parse_sort
from registry.model.graph import Graph
from registry.model.record import MAX_ID
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.counters import BLOCK
from tests.conftest import Serve
from tests.storage.profiling import profiled
from tests.support import Api, Database, Response, add, complete_record, new, set_counters

GRAPH = Graph(RESOURCES)
END_OF_PERSONS = Cursors("person", BY_ID).encode(END)

COUNT = 3_000
SIZE = 40


@pytest.fixture
async def persons(api: Api, database: Database) -> Api:
    """Persons 1 to 7."""
    await database.persons.insert_many(
        complete_record(
            {"_id": number, "first_name": "Ann", "last_name": f"L{number}", "email": None}
        )
        for number in range(1, 8)
    )
    await set_counters(database)
    return api


@pytest.fixture
async def computers(database: Database) -> list[dict[str, Any]]:
    """Computers whose ids have gaps, and whose serials are repeated; in the order of the ids."""
    choose = random.Random(11)  # noqa: S311 - the same ones
    missing = {*choose.sample(range(1, 1_500), 200), *range(2_000, 2_600)}
    records = [
        {"_id": number, "serial": f"S{choose.randint(10, 99)}", "person": number % 3 or None}
        for number in range(1, COUNT)
        if number not in missing
    ]
    await database.computers.insert_many(map(complete_record, records))
    await set_counters(database)
    return records


async def follow(api: Api, response: Response, name: str) -> Response:
    """Get the page that a link leads to; the link must be absolute and percent-encoded."""
    link = response.document["links"][name]
    assert link.startswith(f"{api.origin}/")
    assert "[" not in link
    page = await api.get(link.removeprefix(api.origin))
    assert page.status == 200, page.document
    assert page.document["links"]["self"] == link
    return page


def ids(response: Response) -> list[int]:
    return [int(id_) for id_ in response.ids]


@pytest.mark.parametrize(
    "path", ["/persons?sort=id", "/persons?sort=last_name,-email", "/computers?sort=owner.email"]
)
async def test_the_largest_page_number_is_an_empty_page(persons: Api, path: str) -> None:
    for size, number in ((1, 2**63 - 1), (1000, (2**63 - 1) // 1000 + 1)):  # skips just under 2**63
        response = await persons.get(f"{path}&page[number]={number}&page[size]={size}")
        assert (response.status, response.data) == (200, [])


async def test_cursors_at_either_end_return_empty_pages_with_a_link_back(persons: Api) -> None:
    encode = Cursors("person", BY_ID).encode
    for member, cursor, onward, back, shown in (
        ("after", END_OF_PERSONS, "next", "prev", [5, 6, 7]),
        ("after", encode((7,)), "next", "prev", [5, 6, 7]),
        ("before", encode((1,)), "prev", "next", [1, 2, 3]),
    ):
        response = await persons.get(f"/persons?page[size]=3&page[{member}]={cursor}")
        assert (response.data, response.document["links"][onward]) == ([], None)
        assert ids(await follow(persons, response, back)) == shown


async def test_the_page_size_is_a_setting(serve: Serve, settings: Settings, persons: Api) -> None:
    assert len((await persons.get("/persons?page[number]=1")).ids) == 7
    api = await serve(settings=replace(settings, page_size=2))
    for page, expected in (
        ("number]=1", [1, 2]),
        (f"before]={END_OF_PERSONS}", [6, 7]),
        ("size]=4", [1, 2, 3, 4]),
    ):
        assert ids(await api.get(f"/persons?page[{page}")) == expected
    assert len((await api.get("/persons")).data) == 7


@pytest.mark.parametrize("link", ["next", "prev"])
@pytest.mark.parametrize("sort", ["id", "-email", "last_name,-first_name"])
async def test_cursors_keep_their_position_after_deletions(
    persons: Api, sort: str, link: str
) -> None:
    path = f"/persons?sort={sort}"
    first = await persons.get(f"{path}&page[size]=2")
    page = first if link == "next" else await follow(persons, first, "last")
    expected = [id_ for id_ in ids(await persons.get(path)) if id_ not in ids(page)]
    for id_ in ids(page):
        await persons.delete(f"/persons/{id_}")
    pages = await persons.pages(page.document["links"][link], link)
    assert [len(response.ids) for response in pages] == [2, 2, 1]
    assert sorted(id_ for response in pages for id_ in ids(response)) == sorted(expected)


async def test_pages_at_the_largest_ids_are_right(api: Api, database: Database) -> None:
    stored = range(MAX_ID - 60, MAX_ID + 1)
    await database.computers.insert_many(
        complete_record({"_id": Int64(id_), "serial": "S"}) for id_ in stored
    )
    for sort in ("id", "-id"):
        cursors = Cursors("computer", parse_sort(sort, GRAPH["computer"], GRAPH))
        for start, size in product((MAX_ID - 50, MAX_ID - 7, MAX_ID, -MAX_ID), (1, 7, 30)):
            after = cursors.encode((start,))
            page = await api.get(f"/computers?sort={sort}&page[size]={size}&page[after]={after}")
            beyond = [id_ for id_ in stored if (id_ > start if sort == "id" else id_ < start)]
            shown = beyond if sort == "id" else beyond[::-1]
            assert ids(page) == shown[:size]


COSTS = {
    "sort=id": [(1, SIZE + BLOCK), (50, SIZE + BLOCK), (54, SIZE + BLOCK)],
    "sort=-id": [(1, SIZE + BLOCK), (50, SIZE + BLOCK), (54, SIZE + BLOCK)],
    "sort=id&page[total]=false": [(50, SIZE + BLOCK)],
    "sort=serial": [(1, SIZE + 1), (54, 2 * SIZE), (30, COUNT // 2)],
    "sort=serial&page[total]=false": [(2, 2 * SIZE + 1)],
    "sort=-serial": [(50, 7 * SIZE)],
    "filter[serial]=S50": [(1, 100)],
    "filter[serial][ge]=S98&sort=serial": [(2, 150)],
    "filter[owner]=1": [(18, 800)],
}
"""Numbers of pages, and how many index keys each may examine, together with its total.

There are 55 pages of SIZE.
"""


async def test_a_late_page_examines_few_keys(
    api: Api, computers: list[dict[str, Any]], database: Database
) -> None:
    assert 54 * SIZE < len(computers) <= 55 * SIZE
    for query, pages in COSTS.items():
        expected = (await api.get(f"/computers?{query.removesuffix('&page[total]=false')}")).ids
        for number, most in pages:
            async with profiled(database, "computers") as profile:
                page = await api.get(f"/computers?{query}&page[size]={SIZE}&page[number]={number}")
            assert page.ids == expected[(number - 1) * SIZE : number * SIZE], query
            total = None if "false" in query else len(expected)
            assert page.document["meta"].get("total") == total
            assert 0 < profile.total("keysExamined") <= most, query
            assert 0 < len(page.ids) <= profile.total("docsExamined") <= SIZE + 1, query


@pytest.mark.parametrize("sign", ["-", pytest.param("", marks=pytest.mark.slow)])
async def test_a_page_and_its_total_agree(serve: Serve, sign: str) -> None:
    """The ids are always the numbers from 1 to the total."""
    workers = [await serve(), await serve()]
    choose, pages, is_done = random.Random(13), 0, False  # noqa: S311 - the same ones
    stored = await workers[0].operate(*[add(new("computer", serial="S"))] * 1_000)
    assert stored.status == 200

    async def write() -> None:
        writes = 0
        while writes < 20 or pages < 100:
            writes += 1
            new_ones = [add(new("computer", serial="S"))] * choose.randint(1, 70)
            await workers[writes % 2].operate(*new_ones)

    async def read(api: Api) -> None:
        nonlocal pages
        while not is_done:
            number = choose.randint(1, 60)
            page = await api.get(
                f"/computers?sort={sign}id&page[number]={number}&page[size]={SIZE}"
            )
            total, offset = page.document["meta"]["total"], (number - 1) * SIZE
            expected = range(total, 0, -1) if sign else range(1, total + 1)
            assert ids(page) == list(expected[offset : offset + SIZE])
            pages += 1

    async with asyncio.TaskGroup() as readers:
        for api in workers * 8:
            readers.create_task(read(api))
        await write()
        is_done = True
