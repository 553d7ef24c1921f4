"""Queries whose answer is to fit in one reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from registry.storage.queries import Queries
from registry.storage.wires import Wires
from tests.mongods import client_of
from tests.proxy import Fate, Proxy
from tests.support import CommandLog, Database, open_cursors

COUNT = 10

FIND: dict[str, Any] = {"filter": {"_id": {"$gt": 1}}, "sort": {"_id": 1}}
AGGREGATE: dict[str, Any] = {"pipeline": [{"$match": {"_id": {"$gt": 1}}}, {"$sort": {"_id": 1}}]}


@asynccontextmanager
async def queries_of(database: Database, way: str) -> AsyncIterator[Queries]:
    """Give queries that leave this way."""
    if way == "driver":
        yield Queries(database)
        return
    await database.client.admin.command("ping")  # wires lead to where the driver has been
    wires = Wires(database.client.delegate, 5.0)
    yield Queries(database, wires)
    await wires.close()


@pytest.fixture(params=["wires", "driver"])
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
async def queries(database: Database, way: str) -> AsyncIterator[Queries]:
    async with queries_of(database, way) as queries:
        yield queries


@pytest.fixture
async def numbered(database: Database) -> Database:
    """A database of computers whose ids are known."""
    await database.computers.insert_many({"_id": number} for number in range(COUNT))
    return database


def with_batch(command: str, size: int) -> dict[str, Any]:
    """Return the options of a command that finds all but two."""
    if command == "find":
        return {**FIND, "batchSize": size}
    return {**AGGREGATE, "cursor": {"batchSize": size}}


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize("command", ["find", "aggregate"])
async def test_one_command_finds_what_fits_in_a_reply(
    queries: Queries, commands: CommandLog, command: str
) -> None:
    found = await queries.find_all("computers", command, with_batch(command, COUNT))
    assert [record["_id"] for record in found] == list(range(2, COUNT))
    assert commands.names() == [command]


@pytest.mark.parametrize("command", ["find", "aggregate"])
async def test_what_does_not_fit_in_a_reply_is_found_as_well_and_no_cursor_stays_open(
    queries: Queries, numbered: Database, commands: CommandLog, command: str
) -> None:
    found = await queries.find_all("computers", command, with_batch(command, 3))
    assert [record["_id"] for record in found] == list(range(2, COUNT))
    assert commands.names()[:3] == [command, "killCursors", command]
    assert await open_cursors(numbered) == 0


async def test_records_of_more_than_a_reply_holds_are_all_found(
    queries: Queries, database: Database
) -> None:
    text = "x" * 1_000_000
    await database.computers.insert_many({"_id": number, "serial": text} for number in range(20))
    found = await queries.find_all("computers", "find", {"filter": {}, "batchSize": 100})
    assert sorted(record["_id"] for record in found) == list(range(20))


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.ANSWER_LOST])
async def test_a_query_whose_connection_breaks_is_made_once_more(
    numbered: Database, mongodb_uri: str, way: str, fate: Fate
) -> None:
    with Proxy(mongodb_uri).running() as proxy:
        proxy.verb, proxy.fate, proxy.once = "find", fate, True
        async with (
            client_of(proxy.uri) as client,
            queries_of(client[numbered.name], way) as queries,
        ):
            found = await queries.find_all("computers", "find", with_batch("find", COUNT))
    assert len(found) == COUNT - 2
    assert proxy.harmed


async def test_a_database_that_is_gone_is_waited_for_once(
    mongodb_uri: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(mongodb_uri).running() as proxy:
        uri = f"{proxy.uri}&serverSelectionTimeoutMS=500"
        async with client_of(uri) as client, queries_of(client.nothing, way) as queries:
            proxy.stop()
            caplog.set_level("DEBUG", "pymongo.serverSelection")
            with pytest.raises(ServerSelectionTimeoutError):
                await queries.find_all("computers", "find", {})
            assert caplog.text.count("Server selection started") == 1


async def test_what_the_database_refuses_is_not_tried_again_by_the_driver(
    queries: Queries, commands: CommandLog
) -> None:
    with pytest.raises(OperationFailure):
        await queries.find_all("computers", "find", {"filter": {"$nonsense": 1}})
    assert commands.names() == ["find"]
