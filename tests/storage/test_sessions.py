"""Transactions that a process has left open do not block the others, and progressing ones stay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import OperationFailure

from registry.storage.mongo import transactions
from registry.storage.mongo.mongo_client import APP_NAME
from registry.storage.mongo.transactions import OrphanedTransactions
from tests.mongods import client_of
from tests.support import Api, CommandLog, Database, new


@asynccontextmanager
async def open_transaction(
    uri: str, database: Database, app_name: str, id_: int
) -> AsyncIterator[AsyncIOMotorClientSession]:
    """Yield the session of a transaction that has written a person, as an application would."""
    async with (
        client_of(f"{uri}&appName={app_name}") as client,
        await client.start_session() as session,
    ):
        session.start_transaction()
        change = {"$set": {"first_name": "Open"}}
        persons = client[database.name].persons
        await persons.update_one({"_id": id_}, change, session=session)
        yield session


async def test_only_orphaned_transactions_of_registries_are_ended(
    api: Api, database: Database, mongodb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_SUSPECT_SECONDS", 0.1)
    for _ in range(3):
        await api.person()
    await api.computer()
    async with (
        open_transaction(mongodb_uri, database, APP_NAME, 1),
        open_transaction(mongodb_uri, database, APP_NAME, 2),
        open_transaction(mongodb_uri, database, "other", 3) as other,
    ):
        responses = await asyncio.gather(
            api.patch("/persons/1", new("person", last_name="New")), api.set_computers("2", "1")
        )
        assert [response.status for response in responses] == [200, 200]
        await other.commit_transaction()
    stored = await database.persons.find().sort("_id").to_list(None)
    assert [(one["first_name"], one["last_name"]) for one in stored] == [
        ("Grace", "New"),
        ("Grace", "Hopper"),
        ("Open", "Hopper"),
    ]


async def test_a_transaction_that_makes_progress_is_not_ended(
    api: Api, database: Database, mongodb_uri: str
) -> None:
    await api.person()
    await api.person()
    async with (
        open_transaction(mongodb_uri, database, APP_NAME, 1) as progressing,
        open_transaction(mongodb_uri, database, APP_NAME, 2) as orphaned,
    ):
        orphans = OrphanedTransactions(database)
        persons = progressing.client[database.name].persons
        orphans.clean_up_if_stuck(since=0.0)
        while True:
            await persons.find_one({"_id": 1}, session=progressing)
            if orphans._search is None or orphans._search.done():
                break
        await progressing.commit_transaction()
        with pytest.raises(OperationFailure, match=r"aborted|not match"):
            await orphaned.commit_transaction()


async def test_every_write_has_a_time_limit_on_the_server(api: Api, commands: CommandLog) -> None:
    await api.person()
    await api.computer(owner="1")
    await api.computer()
    commands.unlimited.clear()
    commands.take("all")
    await api.person()
    await api.computer(owner="1")
    await api.patch("/persons/1", new("person", last_name="New"))
    await api.set_computers("1", "1", "2")
    await api.request("DELETE", "/persons/1")
    sent = set(commands.names())
    assert sent >= {"insert", "update", "delete", "commitTransaction"}
    assert not commands.unlimited - {"endSessions"}
