"""`page[number]` of many resources: what it costs, and one point in time for page and total."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from registry.storage.reads import id_index
from tests.conftest import Serve
from tests.jsonapi.test_operation_documents import PERSON
from tests.support import Api, Database, Response

COUNT = 3_000
SIZE = 40


@pytest.fixture
async def computers(api: Api, database: Database) -> list[dict[str, Any]]:
    """Computers whose ids have gaps, and whose serials are repeated; in the order of the ids."""
    choose = random.Random(11)  # noqa: S311 - the same ones
    missing = {*choose.sample(range(1, 1_500), 200), *range(2_000, 2_600)}
    records = [
        {"_id": number, "serial": f"S{choose.randint(10, 99)}", "person": number % 3 or None}
        for number in range(1, COUNT)
        if number not in missing
    ]
    await database.computers.insert_many(records)
    assert (await api.get("/computers?page[number]=1")).status == 200
    return records


def by_serial(record: dict[str, Any]) -> tuple[str, int]:
    return record["serial"], record["_id"]


def by_owner(record: dict[str, Any]) -> tuple[int, int]:
    return record["person"] or 0, record["_id"]


ORDERS: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "sort=id": lambda records: records,
    "sort=-id": lambda records: records[::-1],
    "sort=serial": lambda records: sorted(records, key=by_serial),
    "sort=-serial": lambda records: sorted(records, key=by_serial)[::-1],
    "sort=owner": lambda records: sorted(records, key=by_owner),
    "sort=-owner,-serial": lambda records: sorted(
        records, key=lambda one: (one["person"] or 0, *by_serial(one)), reverse=True
    ),
    "filter[serial]=S50": lambda records: [one for one in records if one["serial"] == "S50"],
    "filter[serial][ge]=S50&sort=-serial": lambda records: sorted(
        (one for one in records if one["serial"] >= "S50"), key=by_serial
    )[::-1],
    "filter[serial][contains]=7&sort=-id": lambda records: [
        one for one in records if "7" in one["serial"]
    ][::-1],
    "filter[id][gt]=2000": lambda records: [one for one in records if one["_id"] > 2000],
}


def ids(response: Response) -> list[int]:
    return [int(one) for one in response.ids]


async def test_each_page_shows_its_part(api: Api, computers: list[dict[str, Any]]) -> None:
    for query, order in ORDERS.items():
        expected = [record["_id"] for record in order(computers)]
        last = -(-len(expected) // SIZE)
        for number in {1, last // 3 + 1, last // 2 + 1, last, last + 1, last + 9}:
            path = f"/computers?{query}&page[size]={SIZE}&page[number]={number}"
            part = expected[(number - 1) * SIZE : number * SIZE]
            for total in ({"total": len(expected)}, {}):
                page = await api.get(path if total else f"{path}&page[total]=false")
                assert ids(page) == part, path
                assert (page.document["links"]["next"] is not None) == (number < last), path
                assert page.document["meta"] == {"count": len(part), **total}


COSTS = {
    "sort=id&page[number]=1": SIZE + 256,
    "sort=id&page[number]=50": SIZE + 256,
    "sort=id&page[number]=54": SIZE + 256,
    "sort=-id&page[number]=1": SIZE + 256,
    "sort=-id&page[number]=50": SIZE + 256,
    "sort=-id&page[number]=54": SIZE + 256,
    "sort=id&page[number]=50&page[total]=false": SIZE + 256,
    "sort=serial&page[number]=1": SIZE + 1,
    "sort=serial&page[number]=54": 2 * SIZE,
    "sort=-serial&page[number]=50": 7 * SIZE,
    "sort=serial&page[number]=30": COUNT // 2,
    "filter[serial]=S50&page[number]=1": 100,
    "filter[serial][ge]=S98&sort=serial&page[number]=2": 150,
    "filter[owner]=1&page[number]=18": 800,
}
"""How many index keys a page may examine, together with its total. There are 55 pages of SIZE."""


async def test_a_page_examines_few_keys_and_no_document_that_it_does_not_show(
    api: Api, computers: list[dict[str, Any]], database: Database
) -> None:
    assert 54 * SIZE < len(computers) <= 55 * SIZE
    operations = database["system.profile"]
    for query, max_keys in COSTS.items():
        await database.command({"profile": 2})
        page = await api.get(f"/computers?{query}&page[size]={SIZE}")
        await database.command({"profile": 0})
        examined = await operations.find({"ns": f"{database.name}.computers"}).to_list(None)
        await operations.drop()
        keys, documents = (
            sum(one.get(name, 0) for one in examined) for name in ("keysExamined", "docsExamined")
        )
        assert 0 < keys <= max_keys, query
        assert 0 < len(page.data) <= documents <= SIZE + 1, query


@pytest.mark.parametrize("sign", ["", "-"])
async def test_a_page_and_its_total_agree(serve: Serve, database: Database, sign: str) -> None:
    """The ids are always the numbers from 1 to the total."""
    workers = [await serve(), await serve()]
    await database.computers.insert_many({"_id": one, "serial": "S"} for one in range(1, 2_001))
    choose, pages, is_done = random.Random(13), 0, False  # noqa: S311 - the same ones

    async def write() -> None:
        greatest, writes = 2_000, 0
        while writes < 20 or pages < 100:
            writes += 1
            new = choose.randint(1, 70)
            await database.computers.insert_many(
                {"_id": greatest + one, "serial": "S"} for one in range(1, new + 1)
            )
            greatest += new
            for _ in range(choose.randint(0, 9)):
                await database.computers.delete_one({"_id": greatest})
                greatest -= 1

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


async def test_the_total_has_every_write_that_was_answered(serve: Serve) -> None:
    workers = [await serve(), await serve()]
    for number in range(1, 6):
        worker = workers[number % 2]
        person = await worker.person()
        await worker.computer(owner=person)  # in a transaction
        created = await worker.operate({"op": "add", "data": PERSON}, {"op": "add", "data": PERSON})
        added = created.results[0]["data"]["id"]
        await worker.request("DELETE", f"/persons/{added}")
        for api in workers:
            for path, total in (("/persons", 2 * number), ("/computers", number)):
                page = await api.get(f"{path}?page[number]=1&page[size]=1")
                assert page.document["meta"]["total"] == total


async def test_pages_are_right_if_mongodb_does_not_report_changes(
    api: Api, computers: list[dict[str, Any]], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_index, "_CHANGES", {})
    await database.computers.delete_one({"_id": computers.pop()["_id"]})
    for number in (1, 30, 55, 56):
        page = await api.get(f"/computers?page[number]={number}&page[size]={SIZE}")
        expected = [record["_id"] for record in computers[(number - 1) * SIZE : number * SIZE]]
        assert (ids(page), page.document["meta"]["total"]) == (expected, len(computers))
