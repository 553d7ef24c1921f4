"""Connections past the driver: used where they may be, and given up where anything is unusual."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo.errors import NetworkTimeout

from registry.storage import wires as module
from registry.storage.wires import Wires, is_plain
from tests.mongods import client_of, initiate, other_mongod
from tests.proxy import Proxy
from tests.support import Database, has_wires

SECONDS = 5.0

SLOW: dict[str, Any] = {"find": "computers", "filter": {"$where": "sleep(5000) || true"}}


@pytest.fixture
async def wires(database: Database) -> AsyncIterator[Wires]:
    await database.computers.insert_one({"_id": 1, "serial": "x"})
    wires = Wires(database.client.delegate, SECONDS)
    yield wires
    await wires.close()


def query(number: int) -> dict[str, Any]:
    return {"find": "computers", "filter": {"_id": number}}


async def found(wires: Wires, database: Database, number: int = 1) -> list[Any]:
    """Return the ids of what a wire has found."""
    reply = await wires.ask(database.name, query(number))
    assert reply is not None
    return [record["_id"] for record in reply["cursor"]["firstBatch"]]


@pytest.mark.parametrize(
    ("uri", "plain"),
    [
        ("mongodb://%2Ftmp%2Fmongodb.sock/?directConnection=true", True),
        ("mongodb://db1,db2,db3/?replicaSet=fleet&readConcernLevel=majority", True),
        ("mongodb://me:secret@db/", False),
        ("mongodb://me@db/?authMechanism=MONGODB-X509&tls=true", False),
        ("mongodb://db/?tls=true", False),
        ("mongodb://db/?ssl=true", False),
        ("mongodb://db/?timeoutMS=2000", False),
        ("mongodb+srv://cluster.example.com/", False),
    ],
)
def test_wires_lead_only_to_where_commands_may_be_sent_as_they_are(uri: str, plain: bool) -> None:
    assert is_plain(uri) is plain


async def test_a_wire_is_used_again(wires: Wires, database: Database) -> None:
    for _ in range(20):
        assert await found(wires, database) == [1]
    assert await has_wires(database, 1)


async def test_a_wire_is_there_for_each_query_under_way(wires: Wires, database: Database) -> None:
    numbers = list(range(1, 11))
    await database.computers.insert_many({"_id": number} for number in numbers[1:])
    answers = await asyncio.gather(*(found(wires, database, number) for number in numbers))
    assert answers == [[number] for number in numbers]


async def test_the_driver_gets_the_queries_for_which_there_is_no_wire(
    wires: Wires, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    replies = await asyncio.gather(*(wires.ask(database.name, query(1)) for _ in range(5)))
    assert [reply is not None for reply in replies] == [True, True, False, False, False]
    assert await found(wires, database) == [1]


async def test_the_driver_gets_what_the_database_refuses(wires: Wires, database: Database) -> None:
    assert await wires.ask(database.name, {"find": "computers", "filter": {"$no": 1}}) is None
    assert await found(wires, database) == [1]


async def test_the_driver_gets_the_queries_for_a_server_that_is_gone(mongodb_uri: str) -> None:
    with Proxy(mongodb_uri).running() as proxy:
        async with client_of(f"{proxy.uri}&serverSelectionTimeoutMS=500") as client:
            await client.admin.command("ping")
            wires = Wires(client.delegate, SECONDS)
            assert await wires.ask("admin", {"ping": 1})
            proxy.stop()
            assert await wires.ask("admin", {"ping": 1}) is None, "an idle wire"
            assert await wires.ask("admin", {"ping": 1}) is None, "a new one"
            await wires.close()


async def test_the_driver_gets_the_queries_while_no_server_takes_writes(mongodb_uri: str) -> None:
    async with other_mongod(mongodb_uri, "--replSet", "other") as uri, client_of(uri) as client:
        await client.admin.command("ping")
        assert await Wires(client.delegate, SECONDS).ask("admin", {"ping": 1}) is None


async def test_the_driver_gets_the_first_query_after_another_server_took_over(
    wires: Wires, database: Database, mongodb_uri: str
) -> None:
    assert await found(wires, database) == [1]
    async with other_mongod(mongodb_uri, "--replSet", "other") as uri:
        await initiate(uri)
        async with client_of(uri) as client:
            await client[database.name].computers.insert_one({"_id": 2})
            wires._client = client.delegate
            assert await wires.ask(database.name, query(2)) is None
            assert await found(wires, client[database.name], 2) == [2]
            await wires.close()


async def test_a_reply_that_takes_too_long_is_not_waited_for_nor_taken_for_another(
    database: Database,
) -> None:
    await database.computers.insert_one({"_id": 1})
    wires = Wires(database.client.delegate, 1.5)
    with pytest.raises(NetworkTimeout, match=r"no reply after 1\.5 seconds"):
        await wires.ask(database.name, SLOW)
    assert await found(wires, database) == [1]
    await wires.close()


async def test_the_reply_to_a_query_that_was_given_up_is_not_taken_for_another(
    wires: Wires, database: Database
) -> None:
    assert await found(wires, database) == [1]
    asking = asyncio.create_task(wires.ask(database.name, SLOW))
    await asyncio.sleep(0.1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert asking.cancelled()
    assert await found(wires, database, 2) == []


async def test_closed_wires_are_no_longer_connected(wires: Wires, database: Database) -> None:
    await asyncio.gather(*(found(wires, database) for _ in range(10)))
    assert await has_wires(database, 10)
    await wires.close()
    assert await has_wires(database, 0)
