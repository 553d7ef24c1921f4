"""Filters `contains` by text blocks: the same results as record by record, at a bounded cost."""

import asyncio
import random
import sys
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from registry.jsonapi.filtering import Condition
from registry.model.attributes import Operator
from registry.storage import maintenance, text_blocks
from registry.storage.reads.filters import to_query
from registry.storage.text_blocks import BLOCK_SIZE, fold
from tests.conftest import Serve
from tests.storage.profiling import profiled
from tests.storage.waiting import eventually
from tests.support import Api, Database, new

LETTERS = [
    *(letter for letter in map(chr, range(sys.maxunicode + 1)) if letter.casefold() != letter),
    *"i\u0131\u0130\u00df\u1e9es\u017fk\u212a\u03b9\u0345\u1fb3\u10d0\u1c90\uab70\u13a0",
]


def contains(name: str, text: str) -> dict[str, Any]:
    return to_query(Condition(name, Operator.CONTAINS, text))


async def test_letters_that_the_filter_does_not_distinguish_have_the_same_form(
    database: Database,
) -> None:
    related = {other for one in LETTERS for other in (one.casefold() + one.lower() + one.upper())}
    letters = sorted({*LETTERS, *related})
    patterns = [contains("text", one)["text"]["$regex"] for one in letters]
    found = {"input": "".join(letters), "regex": "$pattern", "options": "i"}
    stages: list[dict[str, Any]] = [
        {"$documents": [{"pattern": {"$literal": one}} for one in patterns]},
        {
            "$project": {
                "indexes": {"$map": {"input": {"$regexFindAll": found}, "in": "$$this.idx"}}
            }
        },
    ]
    results = await database.aggregate(stages).to_list(None)
    for letter, result in zip(letters, results, strict=True):
        assert {fold(letters[index]) for index in result["indexes"]} == {fold(letter)}


WORDS = ["Ann", "Hannah", "STRASSE", "straße", "Ⴀნა", "a.b", "x\0y", "a\nb\x1fc", "İi", "7", "😀é"]
NEEDLES = [*WORDS, "ann", "ss", "ß", "ან", ".", "\0", "\n", "i", "y@", "1@e", "com", "none", "ნა 1"]
COUNT = 3 * BLOCK_SIZE


def person(number: int) -> dict[str, Any]:
    choose = random.Random(number)  # noqa: S311 - the same persons in each run
    first, last = choose.choice(WORDS), f"{choose.choice(WORDS)} {number}"
    email = f"{choose.choice('xyz')}@{number}.example.com" if number % 3 else None
    names = {"first_name": first, "last_name": last, "full_name": f"{first} {last}"}
    return {"_id": number, **names, "email": email, "version": 1}


@pytest.fixture
async def indexed(database: Database, serve: Serve) -> Api:
    """The service on persons whose texts are in blocks, but for the last few."""
    await database.persons.insert_many(person(number) for number in range(1, COUNT + 1))
    api = await serve()
    await api.repository.catch_up()
    assert await database.persons.count_documents({"text_block": {"$gt": 0}}) == COUNT
    await database.persons.insert_many(person(number) for number in range(COUNT + 1, COUNT + 20))
    return api


def indexing_of(api: Api) -> text_blocks.TextIndexing:
    indexing: text_blocks.TextIndexing = api.repository._maintenance._text_indexing["person"]
    return indexing


async def found(api: Api, name: str, text: str, more: str = "") -> list[int]:
    path = f"/persons?filter[{name}][contains]={quote(text)}&fields[person]=id{more}"
    response = await api.get(path)
    assert response.status == 200, response.document
    return [int(id_) for id_ in response.ids]


async def matching(database: Database, query: dict[str, Any]) -> list[int]:
    return [
        record["_id"] for record in await database.persons.find(query).sort("_id").to_list(None)
    ]


async def check(api: Api, database: Database, *texts: str) -> None:
    for name in ("first_name", "last_name", "full_name", "email"):
        for text in texts:
            assert await found(api, name, text) == await matching(database, contains(name, text))


async def test_text_is_found_inside_blocks_and_outside(indexed: Api, database: Database) -> None:
    await check(indexed, database, *NEEDLES)


async def test_a_text_that_changes_is_found_as_it_is_now(indexed: Api, database: Database) -> None:
    changed = new("person", last_name="Zuse", email="konrad@z3.example.com")
    assert (await indexed.patch("/persons/5", changed)).status == 200
    added = await indexed.person("Konrad", "Zuse")
    assert await found(indexed, "full_name", "ZUSE") == [5, int(added)]
    assert await found(indexed, "email", "@z3") == [5]
    assert (await indexed.delete(f"/persons/{added}")).status == 204
    assert await found(indexed, "last_name", "zus") == [5]
    await check(indexed, database, person(5)["last_name"], " 5")


async def test_texts_that_no_block_can_hold_are_found(indexed: Api, database: Database) -> None:
    long = {"first_name": "A", "last_name": "x" * 100_000 + "unusual"}
    await database.persons.insert_one({"_id": 9_002, **long})
    undecodable = {"_id": 9_005, "first_name": "A", "last_name": "????"}
    raw = bson.encode(undecodable).replace(b"????", b"?\xff??")
    await database.persons.insert_one(RawBSONDocument(raw))
    await database.persons.insert_many(person(number) for number in range(9_100, 9_100 + COUNT))
    expected = await matching(database, contains("last_name", "unusual"))
    assert len(expected) == await count_found(indexed, "last_name", "UNUSUAL") == 1
    await indexing_of(indexed).index()
    assert await database.persons.distinct("_id", {"text_block": 0}) == [9_002, 9_005]
    assert await count_found(indexed, "last_name", "UNUSUAL") == 1


async def count_found(api: Api, name: str, text: str) -> int:
    path = f"/persons?filter[{name}][contains]={text}&page[number]=1&fields[person]=id"
    total: int = (await api.get(path)).document["meta"]["total"]
    return total


@pytest.mark.parametrize(
    ("condition", "query"),
    [
        (
            '{"or":[{"name":"email","op":"contains","val":"X@7"},{"name":"id","op":"lt","val":"4"}]}',
            {"$or": [contains("email", "x@7"), {"_id": {"$lt": 4}}]},
        ),
        (
            '{"not":{"name":"email","op":"contains","val":"E"}}',
            {"$nor": [contains("email", "e")]},
        ),
        (
            '{"or":[{"name":"first_name","op":"contains","val":"7"},'
            '{"and":[{"name":"email","op":"contains","val":"z@"},'
            '{"name":"last_name","op":"contains","val":"a"}]}]}',
            {
                "$or": [
                    contains("first_name", "7"),
                    {"$and": [contains("email", "z@"), contains("last_name", "a")]},
                ]
            },
        ),
        (
            '{"or":[' + ",".join(['{"name":"email","op":"contains","val":"7.e"}'] * 6) + "]}",
            contains("email", "7.e"),
        ),
    ],
)
async def test_blocks_serve_combinations(
    indexed: Api, database: Database, condition: str, query: dict[str, Any]
) -> None:
    response = await indexed.get(f"/persons?filter={quote(f'[{condition}]')}")
    assert [int(id_) for id_ in response.ids] == await matching(database, query)


async def test_a_search_examines_the_blocks_and_the_records_that_match(
    indexed: Api, database: Database
) -> None:
    async with profiled(database, "persons", "persons.text_blocks") as profile:
        assert await found(indexed, "email", "@77.e", "&page[size]=5") == [77]
    blocks, outside = COUNT // BLOCK_SIZE, 19
    assert profile.total("docsExamined") <= 2 * blocks + outside + 1
    assert profile.total("keysExamined") <= 3 * outside


async def test_blocks_change_neither_versions_nor_entity_tags(
    database: Database, serve: Serve
) -> None:
    await database.persons.insert_many(person(number) for number in range(1, BLOCK_SIZE))
    api = await serve()
    before = await api.get("/persons/1")
    await database.persons.insert_one(person(BLOCK_SIZE))
    await indexing_of(api).index()
    record = await database.persons.find_one({"_id": 1})
    assert record is not None
    assert record["version"] == 1
    assert record["text_block"] is not None
    assert (await api.get("/persons/1", **{"If-None-Match": before.headers["ETag"]})).status == 304
    assert "text_block" not in str((await api.get("/persons")).document)


async def test_blocks_that_have_lost_half_of_their_records_are_removed(
    indexed: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "_SAMPLED_BLOCKS", 100)  # all of them
    (sparse,) = await database.persons.distinct("text_block", {"_id": 1})
    await database.persons.update_many({"_id": {"$lte": 129}}, {"$unset": {"text_block": True}})
    await database.persons.insert_many(person(number) for number in range(9_000, 9_000 + COUNT))
    await indexing_of(indexed).index()
    numbers = await database.persons.distinct("text_block", {"text_block": {"$ne": None}})
    assert numbers == await database["persons.text_blocks"].distinct("_id")
    assert sparse not in numbers
    await check(indexed, database, *NEEDLES)


async def test_records_that_two_processes_index_at_once_are_found(
    indexed: Api, database: Database
) -> None:
    await database.persons.insert_many(person(number) for number in range(9_000, 9_000 + COUNT))
    one = indexing_of(indexed)
    await asyncio.gather(one.index(), one.index())
    await check(indexed, database, *NEEDLES)


async def test_a_record_that_changes_before_its_block_is_stored_stays_outside(
    indexed: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = range(9_000, 9_000 + BLOCK_SIZE)
    await database.persons.insert_many(map(person, ids))
    add = text_blocks.TextIndexing._add

    async def change(self: text_blocks.TextIndexing, blocks: list[Any]) -> int:
        await database.persons.update_one({"_id": ids[7]}, {"$set": {"last_name": "Changed"}})
        return await add(self, blocks)

    monkeypatch.setattr(text_blocks.TextIndexing, "_add", change)
    await indexing_of(indexed).index()
    assert ids[7] in await database.persons.distinct("_id", {"text_block": None})
    assert await found(indexed, "last_name", "CHANGED") == [ids[7]]


async def test_a_block_that_another_process_fills_is_not_removed(
    indexed: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "_SAMPLED_BLOCKS", 100)  # all of them
    blocks = database["persons.text_blocks"]
    await blocks.insert_one({"_id": 90, "_filling": True, "last_name": "x\x1f1\n"})
    await blocks.insert_one({"_id": 91, "last_name": ""})
    await database.persons.insert_many(person(number) for number in range(9_000, 9_000 + COUNT))
    await indexing_of(indexed).index()
    assert await blocks.distinct("_id", {"_id": {"$lt": 99}}) == [90]


async def test_records_that_were_just_written_are_added_later(
    indexed: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "_SETTLE_SECONDS", 3_600)
    await database.persons.insert_many(map(person, range(9_000, 9_000 + BLOCK_SIZE)))
    assert (await indexed.patch("/persons/9000", new("person", last_name="Written"))).status == 200
    await indexing_of(indexed).index()
    outside = await database.persons.distinct("_id", {"_id": {"$lt": 9_100}, "text_block": None})
    assert outside == [9_000]
    monkeypatch.setattr(text_blocks, "_SETTLE_SECONDS", 0)
    await database.persons.insert_many(map(person, range(9_300, 9_300 + BLOCK_SIZE)))
    await indexing_of(indexed).index()
    assert not await database.persons.count_documents({"_id": 9_000, "text_block": None})
    assert await found(indexed, "last_name", "WRITTEN") == [9_000]


async def test_a_block_of_new_records_is_built_in_the_background(
    database: Database, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_INDEXING_SECONDS", 0.1)
    monkeypatch.setattr(text_blocks, "_SETTLE_SECONDS", 0)
    api = await serve()
    await asyncio.gather(*(api.person("Ada", f"New {number}") for number in range(1, BLOCK_SIZE)))
    await api.person("Ada", "New")

    async def is_built() -> bool:
        return not await database.persons.count_documents({"text_block": None})

    assert await eventually(is_built)
    assert len(await found(api, "last_name", "NEW")) == BLOCK_SIZE


@pytest.mark.parametrize("is_idle", [True, False])
async def test_indexing_leaves_time_to_requests_in_progress(
    indexed: Api, database: Database, monkeypatch: pytest.MonkeyPatch, is_idle: bool
) -> None:
    slept: list[float] = []
    sleep, unusual = asyncio.sleep, 0.0123  # other tasks sleep too
    monkeypatch.setattr(text_blocks, "_PAUSE_SECONDS", unusual)

    async def pause(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    await database.persons.insert_many(person(number) for number in range(9_000, 9_000 + COUNT))
    async with indexed.repository.bulkheads.streams if not is_idle else nullcontext():
        monkeypatch.setattr(asyncio, "sleep", pause)
        await indexing_of(indexed).index()
    assert slept.count(unusual) == (0 if is_idle else COUNT // BLOCK_SIZE)
