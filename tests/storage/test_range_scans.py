"""Id range scans: different pages share a query."""

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
    """Store computers whose ids have gaps; return the ids."""
    ids = sorted(random.Random(3).sample(range(1, 3 * COUNT), COUNT))  # noqa: S311 - the same ones
    await database.computers.insert_many({"_id": one, "serial": f"S{one}"} for one in ids)
    assert (await api.get("/computers?page[size]=1")).status == 200
    return ids


async def test_concurrent_pages_are_right_and_share_queries(
    api: Api, numbered: list[int], commands: CommandLog
) -> None:
    parameters = [(sign, size) for sign in ("", "-") for size in range(1, 31)]
    first = await asyncio.gather(
        *(api.get(f"/computers?sort={sign}id&page[size]={size}") for sign, size in parameters)
    )
    starts = [response.document["links"]["next"].partition("/computers")[2] for response in first]
    commands.take("all")
    pages = await asyncio.gather(*(api.get(f"/computers{start}") for start in starts))
    for (sign, size), page in zip(parameters, pages, strict=True):
        order = numbered[::-1] if sign else numbered
        assert [int(one["id"]) for one in page.data] == order[size : 2 * size]
        assert list(page.data[0]) == ["type", "id", "attributes", "links"]
    # How full batches are depends on the speed of the machine.
    assert len(commands.take("find")) < len(parameters)


def page_path(sign: str, start: int, size: int) -> str:
    """Return the path of the page of computers that follows an id in this direction."""
    order = (replace(BY_ID[0], descending=bool(sign)),)
    cursor = Cursors("computer", order).encode((start,))
    return f"/computers?sort={sign}id&page[size]={size}&page[after]={cursor}"


async def pages(api: Api, parameters: Sequence[tuple[str, int, int]]) -> list[list[str]]:
    """Request pages concurrently: (sign, id before the first, size); return their ids."""
    responses = await asyncio.gather(*(api.get(page_path(*one)) for one in parameters))
    return [[one["id"] for one in response.data] for response in responses]


def expected(stored: Iterable[int], parameters: Sequence[tuple[str, int, int]]) -> list[list[str]]:
    """Return the ids of each page."""
    ids = []
    for sign, start, size in parameters:
        beyond = sorted(one for one in stored if (one < start if sign else one > start))
        ids.append([f"{one}" for one in (beyond[::-1] if sign else beyond)[:size]])
    return ids


async def test_pages_at_the_largest_ids_are_right(api: Api, database: Database) -> None:
    stored = range(MAX_ID - 60, MAX_ID + 1)
    await database.computers.insert_many({"_id": Int64(one), "serial": "S"} for one in stored)
    starts = (MAX_ID - 50, MAX_ID - 7, MAX_ID, -MAX_ID)
    parameters = [
        (sign, start, size) for sign in ("", "-") for start in starts for size in (1, 7, 30)
    ]
    assert await pages(api, parameters) == expected(stored, parameters)
