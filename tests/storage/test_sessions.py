"""Transactions that a process has left open do not block the others, and progressing ones stay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorClientSession

from registry.capacity import Capacity
from registry.jsonapi.changes import NEW, NO_CHANGE, Verb, Write
from registry.jsonapi.error_types import Unavailable
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.repository import Repository
from tests.mongods import Client, client_of, initiate, leave_transaction, other_mongod
from tests.support import Api, CommandLog, Database, new


@asynccontextmanager
async def open_transaction(
    uri: str, database: Database, id_: int
) -> AsyncIterator[AsyncIOMotorClientSession]:
    """Yield the session of a transaction that has written a person; its client is alive."""
    async with client_of(uri) as client, await client.start_session() as session:
        session.start_transaction()
        change = {"$set": {"first_name": "Open"}}
        persons = client[database.name].persons
        await persons.update_one({"_id": id_}, change, session=session)
        yield session


@pytest.fixture
async def _lasting_transactions(database: Database) -> AsyncIterator[None]:
    """MongoDB itself ends no transaction during the test."""
    admin, limit = database.client.admin, "transactionLifetimeLimitSeconds"
    seconds = (await admin.command({"getParameter": 1, limit: 1}))[limit]
    await admin.command({"setParameter": 1, limit: 3_600})
    yield
    await admin.command("killAllSessions", [])  # what a failure leaves would delay the next test
    await admin.command({"setParameter": 1, limit: seconds})


@pytest.mark.usefixtures("_lasting_transactions")
async def test_only_transactions_of_lost_clients_are_ended(
    api: Api, database: Database, mongodb_uri: str
) -> None:
    for _ in range(3):
        await api.person()
    await api.computer()
    async with open_transaction(mongodb_uri, database, 3) as alive:
        for id_ in (1, 2):
            await leave_transaction(mongodb_uri, database.name, id_)
        responses = await asyncio.gather(
            api.patch("/persons/1", new("person", last_name="New")), api.set_computers("2", "1")
        )
        assert [response.status for response in responses] == [200, 200]
        await alive.commit_transaction()
    stored = await database.persons.find().sort("_id").to_list(None)
    assert [(record["first_name"], record["last_name"]) for record in stored] == [
        ("Grace", "New"),
        ("Grace", "Hopper"),
        ("Open", "Hopper"),
    ]


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


async def test_a_connection_without_sessions_ends_the_service(mongodb_uri: str) -> None:
    reasons: list[str] = []
    graph, capacity = Graph(RESOURCES), Capacity.of(Settings())
    async with other_mongod(mongodb_uri, "--replSet", "other") as uri:
        # The driver keeps the only connection, which it opens before there is a primary.
        client: Client = AsyncIOMotorClient(uri, maxPoolSize=1)
        await client.admin.command("ping")
        await initiate(uri)
        repository = Repository(client.registry, graph, capacity, reasons.append)
        with pytest.raises(Unavailable):
            await repository.write([Write(Verb.REMOVE, graph["person"], NEW, NO_CHANGE)])
        await repository.close()
        client.close()
    reason = (
        "MongoDB cannot be used any more: Sessions are not supported by this MongoDB deployment"
    )
    assert reasons[0] == reason
