"""Commands of which the answer is to fit in one reply."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo import WriteConcern
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from registry.storage.commands import Commands
from tests.mongods import client_of
from tests.proxy import Fate, Proxy
from tests.support import CommandLog, Database, open_cursors

COUNT = 10

FIND: dict[str, Any] = {"filter": {"_id": {"$gt": 1}}, "sort": {"_id": 1}}
AGGREGATE: dict[str, Any] = {"pipeline": [{"$match": {"_id": {"$gt": 1}}}, {"$sort": {"_id": 1}}]}


@asynccontextmanager
async def commands_that_break(
    uri: str, database: str, verb: str, fate: Fate
) -> AsyncIterator[Commands]:
    """Give commands whose first connection with this verb breaks."""
    with Proxy(uri).running() as proxy:
        proxy.verb, proxy.fate, proxy.once = verb, fate, True
        async with client_of(proxy.uri) as client:
            yield Commands(client[database])
    assert proxy.harmed


@pytest.fixture
def shared(database: Database) -> Commands:
    return Commands(database)


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
    shared: Commands, commands: CommandLog, command: str
) -> None:
    found = await shared.find_all("computers", command, with_batch(command, COUNT))
    assert [record["_id"] for record in found] == list(range(2, COUNT))
    assert commands.names() == [command]


@pytest.mark.parametrize("command", ["find", "aggregate"])
async def test_what_does_not_fit_in_a_reply_is_found_as_well_and_no_cursor_stays_open(
    shared: Commands, numbered: Database, commands: CommandLog, command: str
) -> None:
    found = await shared.find_all("computers", command, with_batch(command, 3))
    assert [record["_id"] for record in found] == list(range(2, COUNT))
    assert commands.names()[:3] == [command, "killCursors", command]
    assert await open_cursors(numbered) == 0


async def test_records_of_more_than_a_reply_holds_are_all_found(
    shared: Commands, database: Database
) -> None:
    text = "x" * 1_000_000
    await database.computers.insert_many({"_id": number, "serial": text} for number in range(20))
    found = await shared.find_all("computers", "find", {"filter": {}, "batchSize": 100})
    assert sorted(record["_id"] for record in found) == list(range(20))


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.ANSWER_LOST])
async def test_a_query_whose_connection_breaks_is_made_once_more(
    numbered: Database, mongodb_uri: str, fate: Fate
) -> None:
    async with commands_that_break(mongodb_uri, numbered.name, "find", fate) as shared:
        found = await shared.find_all("computers", "find", with_batch("find", COUNT))
    assert len(found) == COUNT - 2


async def test_a_database_that_is_gone_is_waited_for_once(
    mongodb_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(mongodb_uri).running() as proxy:
        uri = f"{proxy.uri}&serverSelectionTimeoutMS=500"
        async with client_of(uri) as client:
            shared = Commands(client.nothing)
            proxy.stop()
            caplog.set_level("DEBUG", "pymongo.serverSelection")
            with pytest.raises(ServerSelectionTimeoutError):
                await shared.find_all("computers", "find", {})
            assert caplog.text.count("Server selection failed") == 1


async def test_what_the_database_refuses_is_not_tried_again_by_the_driver(
    shared: Commands, commands: CommandLog
) -> None:
    with pytest.raises(OperationFailure):
        await shared.find_all("computers", "find", {"filter": {"$nonsense": 1}})
    assert commands.names() == ["find"]


ONES: dict[str, Any] = {"_id": {"$in": [1, 2]}}


async def test_one_command_changes_many_records_for_the_majority(
    shared: Commands, numbered: Database, commands: CommandLog
) -> None:
    await shared.change_all("computers", ONES, [{"$set": {"serial": "x"}}])
    assert commands.names() == ["update"]
    changed = await numbered.computers.find({"serial": "x"}).sort("_id").to_list(None)
    assert [record["_id"] for record in changed] == [1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        [{"$set": {"_id": 5}}],
        [{"$set": {"serial": {"$divide": [1, 0]}}}],
        [{"$nonsense": 1}],
    ],
)
async def test_a_change_that_the_database_refuses_is_told(
    shared: Commands, numbered: Database, changes: list[Any]
) -> None:
    before = await numbered.computers.find().to_list(None)
    with pytest.raises(OperationFailure):
        await shared.change_all("computers", ONES, changes)
    assert await numbered.computers.find().to_list(None) == before


async def test_a_change_that_the_majority_does_not_have_is_told(numbered: Database) -> None:
    concern = WriteConcern(w=2, wtimeout=1)
    database = numbered.client.get_database(numbered.name, write_concern=concern)
    with pytest.raises(OperationFailure):
        await Commands(database).change_all("computers", ONES, [{"$set": {"serial": "x"}}])


@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.ANSWER_LOST])
async def test_a_change_whose_connection_breaks_is_made_or_told(
    numbered: Database, mongodb_uri: str, fate: Fate
) -> None:
    async with commands_that_break(mongodb_uri, numbered.name, "update", fate) as shared:
        with pytest.raises(OperationFailure):
            await shared.change_all("computers", ONES, [{"$set": {"serial": "x"}}])
    is_made = fate is Fate.ANSWER_LOST
    assert await numbered.computers.count_documents({"serial": "x"}) == 2 * is_made
