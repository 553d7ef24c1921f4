"""The index of ids: totals and positions, whoever writes and however a writer ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from pymongo import WriteConcern
from pymongo.errors import AutoReconnect

from registry.model.record import MAX_ID
from registry.storage.mongo import change_streams
from registry.storage.mongo.change_streams import ChangesUnavailable, IdChanges
from registry.storage.mongo.read_commands import ReadCommands
from registry.storage.reads import id_index
from registry.storage.reads.id_index import IdIndex, IdPosition, PositionResult
from tests.mongods import client_of, program_of
from tests.proxy import Effect, Proxy
from tests.replica_set import Member, Processes, ReplicaSet
from tests.storage.waiting import eventually
from tests.support import CommandLog, Database, open_cursors

FIRST, LAST = IdPosition(0, descending=False), IdPosition(0, descending=True)

Write = Callable[[Database], Awaitable[Any]]


@pytest.fixture
async def stored(database: Database) -> Database:
    """A database with computers 1 to 1,000, as the service prepares it."""
    await database.counters.insert_one({"_id": "computer"})
    await insert(database, range(1, 1_001))
    return database


@pytest.fixture
def commands(commands: CommandLog, monkeypatch: pytest.MonkeyPatch) -> CommandLog:
    """The commands since the test started, without those that are sent between calls."""
    monkeypatch.setattr(id_index, "_POLL_SECONDS", 3_600.0)
    return commands


@pytest.fixture
async def index(stored: Database) -> AsyncIterator[IdIndex]:
    """The index of the computers, which is loaded."""
    index = IdIndex(ReadCommands(stored), "computers")
    await check(index, stored)
    yield index
    await index.close()


async def insert(database: Database, ids: Iterable[Any]) -> None:
    await database.computers.insert_many({"_id": one} for one in ids)


async def located(index: IdIndex, position: IdPosition = FIRST) -> PositionResult:
    result = await index.read(position)
    assert result is not None
    return result


async def check(index: IdIndex, database: Database) -> None:
    """Check the total and some positions, in both directions."""
    found = await database.computers.find({}, {"_id": True}).sort("_id", 1).to_list(None)
    ids = [record["_id"] for record in found]
    for offset in {0, 1, len(ids) // 3, len(ids) - 1, len(ids), len(ids) + 5} - {-1}:
        for descending in (False, True):
            total, _, place = await located(index, IdPosition(offset, descending))
            assert total == len(ids)
            if offset >= len(ids):
                assert place is None
                continue
            assert place is not None
            position = len(ids) - 1 - offset if descending else offset
            assert place.first <= ids[position] <= place.last
            near = [one for one in ids if place.first <= one <= place.last]
            assert near.index(ids[position]) == place.before
            assert len(near) == place.before + 1 + place.after


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


@pytest.mark.parametrize("batch_size", [change_streams._BATCH_SIZE, 7])
async def test_the_index_is_exact_after_transactions(
    index: IdIndex, stored: Database, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """Also if one does not fit into a reply."""
    monkeypatch.setattr(change_streams, "_BATCH_SIZE", batch_size)
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


@pytest.mark.parametrize("id_", ["x", 41.5, ObjectId(), {"a": 1}])
async def test_an_id_that_is_not_an_integer_disables_the_index_for_a_while(
    index: IdIndex, stored: Database, id_: Any
) -> None:
    await stored.computers.insert_one({"_id": id_})
    loaded_later = IdIndex(ReadCommands(stored), "computers")
    for each in (index, loaded_later):
        assert await each.read(FIRST) is None
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
    assert commands.names() == ["find", "getMore", "aggregate"]
    await check(index, stored)


@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
async def test_changes_whose_reply_is_lost_are_read_again(
    stored: Database, mongodb_uri: str, effect: Effect
) -> None:
    with Proxy(mongodb_uri).running() as proxy:
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
        call = asyncio.create_task(index.read(FIRST))
        for _ in range(number % 5):
            await asyncio.sleep(0.0003)
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
    await check(index, stored)


async def test_changes_are_read_up_to_the_time_of_the_snapshot(
    stored: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = ReadCommands(stored)
    now = await commands.now()
    stream, never = IdChanges(stored, "computers", now), Timestamp(now.time + 3_600, 0)
    await stored.computers.insert_one({"_id": 2_000})
    monkeypatch.setattr(change_streams, "_LAG_SECONDS", 0.1)
    with pytest.raises(ChangesUnavailable):
        await stream.read(never, 100, 0.0)
    assert stream.time == now
    await stored.computers.delete_one({"_id": 1})
    now = await commands.now()
    assert await stream.read(now, 100, 1.0) == {2_000: 1, 1: -1}
    assert stream.time >= now
    await stream.close()


async def test_no_cursor_stays_open_without_calls(
    stored: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_index, "_POLL_SECONDS", 0.01)
    index = IdIndex(ReadCommands(stored), "computers")
    await located(index)

    async def is_open() -> bool:  # MongoDB lists no cursor while a command reads it
        return await open_cursors(stored) == 1

    assert await eventually(is_open)
    monkeypatch.setattr(id_index, "_IDLE_SECONDS", 0.0)
    await stored.computers.delete_one({"_id": 1})

    async def is_closed() -> bool:
        return await open_cursors(stored) == 0

    assert await eventually(is_closed)
    await stored.computers.delete_one({"_id": 2})
    await check(index, stored)
    await index.close()


async def test_the_index_is_exact_after_mongod_was_killed_and_after_an_election(
    mongodb_uri: str, tmp_path: Path, unused_tcp_port: int
) -> None:
    with ExitStack() as stack:
        processes = Processes()
        stack.callback(processes.end)
        member = Member(await program_of(mongodb_uri), tmp_path / "db", unused_tcp_port, processes)
        stack.enter_context(member.client)
        replica_set = ReplicaSet([member], processes)
        await replica_set.initiate()
        await replica_set.primary()
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
