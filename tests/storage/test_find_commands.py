"""Queries as single commands: replies that are too large, and connections that are lost."""

from typing import Any

import pytest
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from registry.storage.mongo.read_commands import ReadCommands, find_command
from tests.mongods import client_of
from tests.proxy import Effect, Proxy
from tests.support import CommandLog, Database, open_cursors

pytestmark = pytest.mark.usefixtures("_new_database")  # without validators

COUNT = 10
QUERY: dict[str, Any] = {"_id": {"$gt": 1}}
ID = {"_id": True}


@pytest.fixture
async def numbered(database: Database) -> Database:
    """A database of computers whose ids are known."""
    await database.computers.insert_many({"_id": number} for number in range(COUNT))
    return database


async def test_records_beyond_the_first_reply_are_found_and_no_cursor_stays_open(
    numbered: Database, commands: CommandLog
) -> None:
    records, _ = await ReadCommands(numbered).run(
        find_command("computers", QUERY, ID, sort={"_id": 1}, batchSize=3)
    )
    assert [record["_id"] for record in records] == list(range(2, COUNT))
    assert commands.names()[:3] == ["find", "killCursors", "find"]
    assert await open_cursors(numbered) == 0


@pytest.mark.parametrize("verb", ["hello", "find"])
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
async def test_a_query_is_sent_again_if_its_connection_is_lost(
    numbered: Database, proxy: Proxy, effect: Effect, verb: str
) -> None:
    async with client_of(proxy.uri) as client:
        await client.admin.command("ping")  # the driver sends `hello` before
        proxy.verb, proxy.effect, proxy.once = verb, effect, True
        commands = ReadCommands(client[numbered.name])
        records, _ = await commands.run(find_command("computers", QUERY, ID))
    assert proxy.affected
    assert len(records) == COUNT - 2


async def test_an_unavailable_database_is_waited_for_once(
    mongodb_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Proxy(mongodb_uri).running() as proxy:
        uri = f"{proxy.uri}&serverSelectionTimeoutMS=500"
        async with client_of(uri) as client:
            proxy.stop()
            caplog.set_level("DEBUG", "pymongo.serverSelection")
            with pytest.raises(ServerSelectionTimeoutError):
                await ReadCommands(client.nothing).run(find_command("computers", {}, ID))
            assert caplog.text.count("Server selection failed") == 1


async def test_a_query_that_the_database_refuses_is_not_sent_again(
    database: Database, commands: CommandLog
) -> None:
    with pytest.raises(OperationFailure):
        await ReadCommands(database).run(find_command("computers", {"$nonsense": 1}, ID))
    assert commands.names() == ["find"]
