"""The index of ids: totals and positions, whoever writes and however a writer ends."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId
from pymongo import WriteConcern
from pymongo.errors import AutoReconnect

from registry.model.record import MAX_ID
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.reads import id_index
from registry.storage.reads.id_index import IdIndex, IdSnapshot
from tests.mongods import client_of, program_of
from tests.proxy import Effect, Proxy
from tests.replica_set import replica_set_on
from tests.support import CommandLog, Database, open_cursors

pytestmark = pytest.mark.usefixtures("_new_database")

Write = Callable[[Database], Awaitable[Any]]


@pytest.fixture
async def stored(database: Database) -> Database:
    """A database with computers 1 to 1,000, as the service prepares it."""
    await database.counters.insert_one({"_id": "computer"})
    await insert(database, range(1, 1_001))
    return database


@pytest.fixture
async def index(stored: Database) -> AsyncIterator[IdIndex]:
    """The index of the computers, which is loaded."""
    index = IdIndex(ReadCommands(stored), "computers")
    await check(index, stored)
    yield index
    await index.close()


async def insert(database: Database, ids: Iterable[Any]) -> None:
    await database.computers.insert_many({"_id": one} for one in ids)


async def located(index: IdIndex, offset: int = 0, *, descending: bool = False) -> IdSnapshot:
    found = await index.read(offset, descending=descending)
    assert found is not None
    return found


async def check(index: IdIndex, database: Database) -> None:
    """Check the total and some positions, in both directions."""
    found = await database.computers.find({}, {"_id": True}).sort("_id", 1).to_list(None)
    stored = [record["_id"] for record in found]
    for offset in {0, 1, len(stored) // 3, len(stored) - 1, len(stored), len(stored) + 5} - {-1}:
        for descending in (False, True):
            total, _, place = await located(index, offset, descending=descending)
            assert total == len(stored)
            if offset >= len(stored):
                assert place is None
                continue
            assert place is not None
            ids = stored[::-1] if descending else stored
            following = [
                one for one in ids if (one <= place.start if descending else one >= place.start)
            ]
            assert following[place.skipped] == ids[offset]
            assert place.skipped < 256 or following[0] != ids[0]


@pytest.mark.parametrize(
    "ids",
    [
        range(2_001),
        range(-1_000, 1_000),
        range(1, 10**9, 10**5),
        range(-MAX_ID - 1, MAX_ID, 2**53),
        [*range(1, 500), *range(MAX_ID - 500, MAX_ID + 1)],
        [],
    ],
    ids=["dense", "negative", "sparse", "everywhere", "ends", "empty"],
)
async def test_the_index_is_exact_while_others_insert_and_delete(
    database: Database, ids: Iterable[int]
) -> None:
    choose, all_ids = random.Random(5), [Int64(one) for one in ids]  # noqa: S311 - the same ones
    await database.counters.insert_one({"_id": "computer"})
    index = IdIndex(ReadCommands(database), "computers")
    for _ in range(4):
        await database.computers.delete_many({})
        if chosen := choose.sample(all_ids, len(all_ids) // 2):
            await insert(database, chosen)
        await check(index, database)
        await database.computers.delete_many({"_id": {"$in": chosen[::3]}})
        await check(index, database)
    await index.close()


@pytest.mark.parametrize("batch_size", [id_index._BATCH_SIZE, 7])
async def test_the_index_is_exact_after_transactions(
    index: IdIndex, stored: Database, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """Also if one does not fit into a reply."""
    monkeypatch.setattr(id_index, "_BATCH_SIZE", batch_size)
    async with await stored.client.start_session() as session:
        for count in (1, 700):
            async with session.start_transaction():
                new = [{"_id": 10_000 * count + one} for one in range(count)]
                await stored.computers.insert_many(new, session=session)
                await stored.computers.delete_many({"_id": {"$lte": count}}, session=session)
                await check(index, stored)
            await check(index, stored)
        session.start_transaction()
        await stored.computers.delete_many({}, session=session)
        await session.abort_transaction()
    await check(index, stored)


REPLACEMENTS: dict[str, Write] = {
    "drop": lambda database: database.computers.drop(),
    "rename": lambda database: database.computers.rename("others"),
    "rename onto": lambda database: database.persons.rename("computers", dropTarget=True),
    "out": lambda database: database.persons.aggregate([{"$out": "computers"}]).to_list(None),
    "drop database": lambda database: database.client.drop_database(database.name),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
async def test_the_index_is_exact_after_the_collection_was_replaced(
    index: IdIndex, stored: Database, name: str
) -> None:
    await stored.persons.insert_many({"_id": 3 * one} for one in range(50))
    await stored.computers.delete_one({"_id": 1})
    await REPLACEMENTS[name](stored)
    await check(index, stored)
    await insert(stored, range(5_000, 5_100))
    await check(index, stored)


@pytest.mark.parametrize("id_", ["x", ObjectId(), {"a": 1}, None, float("nan")])
async def test_an_id_that_is_not_a_number_disables_the_index_for_a_while(
    index: IdIndex, stored: Database, id_: Any
) -> None:
    await stored.computers.insert_one({"_id": id_})
    loaded_later = IdIndex(ReadCommands(stored), "computers")
    for each in (index, loaded_later):
        assert await each.read(0, descending=False) is None
    await stored.computers.delete_one({"_id": id_})
    for each in (index, loaded_later):
        each._retry_at = 0.0
        await check(each, stored)
    await loaded_later.close()


async def test_a_cursor_that_the_server_has_closed_is_opened_again(
    commands: CommandLog, index: IdIndex, stored: Database
) -> None:
    stages: list[dict[str, Any]] = [
        {"$currentOp": {"idleCursors": True}},
        {"$match": {"ns": f"{stored.name}.computers", "type": "idleCursor"}},
    ]
    (cursor,) = await stored.client.admin.aggregate(stages).to_list(None)
    kill = {"killCursors": "computers", "cursors": [cursor["cursor"]["cursorId"]]}
    await stored.client.admin.command({"killSessions": [{"id": cursor["lsid"]["id"]}]})
    await stored.command(kill)
    await stored.computers.delete_many({"_id": {"$lt": 10}})
    commands.take("all")
    await located(index)
    assert commands.names() == ["find", "getMore", "find", "aggregate"]
    await check(index, stored)


@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
async def test_changes_whose_reply_is_lost_are_read_again(
    stored: Database, proxy: Proxy, effect: Effect
) -> None:
    proxy.verb, proxy.once = "getMore", True
    async with client_of(proxy.uri) as client:
        index = IdIndex(ReadCommands(client[stored.name]), "computers")
        await check(index, stored)
        proxy.effect = effect
        await stored.computers.delete_many({"_id": {"$lt": 10}})
        await check(index, stored)
        await index.close()
    assert proxy.affected


async def test_changes_are_not_lost_if_the_caller_is_cancelled(
    index: IdIndex, stored: Database
) -> None:
    for number in range(2_000, 2_020):
        await stored.computers.insert_one({"_id": number})
        call = asyncio.create_task(index.read(0, descending=False))
        for _ in range(number % 5):
            await asyncio.sleep(0.0003)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
    await check(index, stored)


async def test_the_index_is_loaded_again_if_too_much_has_changed(
    commands: CommandLog, index: IdIndex, stored: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_index, "_MIN_EVENTS", 0)
    await insert(stored, range(2_000, 2_200))
    commands.take("all")
    await located(index)
    assert commands.names().count("getMore") == 1
    await check(index, stored)


async def test_no_cursor_stays_open_after_closing(stored: Database) -> None:
    index = IdIndex(ReadCommands(stored), "computers")
    await check(index, stored)
    assert await open_cursors(stored) == 1
    await index.close()
    assert await open_cursors(stored) == 0


@pytest.mark.slow
async def test_the_index_is_exact_after_mongod_was_killed_and_after_an_election(
    mongodb_uri: str, tmp_path: Path, unused_tcp_port: int
) -> None:
    program = await program_of(mongodb_uri)
    with replica_set_on([unused_tcp_port], program, tmp_path) as replica_set:
        await replica_set.initiate()
        member = await replica_set.primary()
        async with client_of(member.uri) as client:
            database = client.registry
            await database.counters.insert_one({"_id": "computer"})
            await insert(database, range(1, 1_001))
            index = IdIndex(ReadCommands(database), "computers")
            await check(index, database)
            hasty = database.computers.with_options(write_concern=WriteConcern(1, j=False))
            for number in range(3):
                await hasty.insert_many({"_id": 10_000 * (number + 1) + one} for one in range(99))
                await located(index)
                await hasty.delete_many({"_id": {"$lte": 10 * (number + 1)}})
                if number == 1:
                    with suppress(AutoReconnect):
                        await client.admin.command({"replSetStepDown": 1, "force": True})
                else:
                    member.kill()
                    member.start()
                await replica_set.primary()
                await check(index, database)
            await index.close()
