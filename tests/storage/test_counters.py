"""Counters give out ids without gaps, and know where the resource at a position is."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.model.graph import Graph
from registry.operations.consistency import check
from registry.resources import RESOURCES
from registry.storage.counters import BLOCK, IdCounter, increments
from tests.conftest import Serve
from tests.support import Api, CommandLog, Database, add, new


@given(
    last=st.integers(0, 5 * BLOCK),
    deleted=st.lists(st.integers(1, 5 * BLOCK) | st.integers(BLOCK - 2, BLOCK + 2), max_size=50),
    ranges=st.lists(st.tuples(st.integers(1, 5 * BLOCK), st.integers(0, 2 * BLOCK)), max_size=2),
    offset=st.integers(0, 6 * BLOCK),
)
@pytest.mark.parametrize("descending", [False, True])
def test_a_position_leads_to_the_id(
    last: int,
    deleted: list[int],
    ranges: list[tuple[int, int]],
    offset: int,
    *,
    descending: bool,
) -> None:
    gone = {*deleted, *(id_ for first, size in ranges for id_ in range(first, first + size))}
    stored = [id_ for id_ in range(1, last + 1) if id_ not in gone]
    ids = stored[::-1] if descending else stored
    blocks: dict[str, int] = {}
    for name, change in increments(0, last, stored, ()).items():
        if "." in name:
            blocks[name.partition(".")[2]] = change
    place = IdCounter(last, len(stored), blocks).place(offset, descending=descending)
    if offset >= len(ids):
        assert place is None
        return
    assert place is not None
    following = [id_ for id_ in ids if (id_ <= place.start if descending else id_ >= place.start)]
    assert following[place.skipped] == ids[offset]
    assert place.skipped < BLOCK


async def test_two_services_that_create_and_delete_keep_exact_counters(
    serve: Serve, database: Database, commands: CommandLog
) -> None:
    apis = [await serve() for _ in range(2)]
    choose = random.Random(3)  # noqa: S311 - the same ones
    created: list[str] = []

    async def write(api: Api) -> None:
        for _ in range(10):
            person = await api.person()
            created.append(await api.computer(owner=person))
            if choose.random() < 0.5:
                assert (await api.request("DELETE", f"/persons/{person}")).status == 204

    commands.take("all")
    await asyncio.gather(*(write(api) for api in apis * 4))
    assert sorted(map(int, created)) == list(range(1, 81))
    assert (await check(database, Graph(RESOURCES))).total == 0
    page = await apis[1].get("/computers?page[number]=4&page[size]=20")
    assert (page.ids, page.document["meta"]["total"]) == ([str(n) for n in range(61, 81)], 80)


async def test_a_large_creation_succeeds_while_another_service_creates(serve: Serve) -> None:
    apis = [await serve() for _ in range(2)]
    large = asyncio.create_task(apis[0].operate(*[add(new("computer", serial="S"))] * 900))
    others = 0
    while not large.done():
        await apis[1].computer()
        others += 1
    assert (await large).status == 200
    assert await apis[1].computer() == str(900 + others + 1)
