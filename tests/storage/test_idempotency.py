"""A request that is repeated with its key is executed once, whatever happened to the first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from registry.settings import Settings
from registry.storage.mongo import mongo_client, transactions
from tests.api.test_idempotency import COMPUTER, KEY, PERSON, is_replayed, send
from tests.conftest import Serve
from tests.proxy import Effect, Proxy
from tests.storage.waiting import eventually
from tests.support import Api, Database, stored_records

MANY = 10

OPERATIONS = [{"op": "add", "data": PERSON}, {"op": "add", "data": COMPUTER}]

REQUESTS: list[tuple[str, Any]] = [
    ("/persons", PERSON),
    ("/persons?include=computers", PERSON),
    ("/operations", OPERATIONS),
]


@pytest.fixture
async def behind_proxy(proxy: Proxy, serve: Serve, settings: Settings) -> Api:
    """A service whose connections to the database can break."""
    settings = replace(settings, query_seconds=2.0, mongodb_uri=proxy.uri)
    return await serve(settings=settings, queue_seconds=2.0)


@pytest.fixture
async def _short_waits(monkeypatch: pytest.MonkeyPatch, database: Database) -> AsyncIterator[None]:
    monkeypatch.setitem(mongo_client._OPTIONS, "serverSelectionTimeoutMS", 1_000)
    monkeypatch.setattr(transactions, "_RETRY_SECONDS", 4.0)
    yield
    # Transactions whose service is gone would delay the drop of the database by a minute.
    await database.client.admin.command("killAllSessions", [])


@pytest.mark.slow
@pytest.mark.usefixtures("_short_waits")
@pytest.mark.parametrize("verb", ["insert", "commitTransaction"])
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
async def test_a_request_whose_outcome_is_unknown_is_executed_once_when_it_is_repeated(
    proxy: Proxy, behind_proxy: Api, api: Api, database: Database, effect: Effect, verb: str
) -> None:
    """The first service loses its connections, and has them again after another one has replied."""
    proxy.verb, proxy.effect, proxy.permanent = verb, effect, True
    lost = await asyncio.gather(*(send(behind_proxy, *request) for request in keyed("key")))
    assert proxy.affected
    assert [reply.status for reply in lost] == [503] * len(REQUESTS)
    repeated = await asyncio.gather(*(send(api, *request) for request in keyed("key")))
    assert [reply.status for reply in repeated] == [201, 201, 200]
    proxy.effect, proxy.permanent = Effect.NONE, False
    again = await asyncio.gather(*(send(api, *request) for request in keyed("key")))
    assert [reply.document for reply in again] == [reply.document for reply in repeated]
    assert list(map(len, await stored_records(database))) == [3, 1]


def keyed(key: str) -> list[tuple[str, Any, str]]:
    """Return the requests, each with a key of its own."""
    return [(path, data, f"{key}-{number}") for number, (path, data) in enumerate(REQUESTS)]


@pytest.mark.parametrize("verb", ["insert", "commitTransaction"])
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
async def test_creations_with_keys_are_executed_once_when_a_connection_breaks(
    proxy: Proxy, behind_proxy: Api, database: Database, effect: Effect, verb: str
) -> None:
    proxy.verb, proxy.effect, proxy.once = verb, effect, True
    requests = [send(behind_proxy, "/persons", PERSON, f"key-{number}") for number in range(MANY)]
    replies = await asyncio.gather(*requests)
    assert proxy.affected
    assert [reply.status for reply in replies] == [201] * MANY
    stored = await database.persons.distinct("_id")
    assert sorted(int(reply.id) for reply in replies) == stored


@pytest.mark.parametrize(("path", "data"), REQUESTS)
@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_request_waits_for_another_process_that_executes_it(
    api: Api, database: Database, path: str, data: Any, *, is_committed: bool
) -> None:
    """The other process is played by a transaction that has inserted the result."""
    first = await send(api, path, data, KEY)
    result = await database.idempotency_keys.find_one_and_delete({})
    assert result is not None
    count = sum(map(len, await stored_records(database)))
    async with await database.client.start_session() as session:
        session.start_transaction()
        await database.idempotency_keys.insert_one(result, session=session)
        before = await aborted_transactions(database)

        async def has_conflicted() -> bool:
            return await aborted_transactions(database) > before

        second = asyncio.create_task(send(api, path, data, KEY))
        assert await eventually(has_conflicted)
        assert not second.done()
        if is_committed:
            await session.commit_transaction()
        else:
            await session.abort_transaction()
    reply = await second
    after = sum(map(len, await stored_records(database)))
    assert reply.status == first.status
    assert (
        is_replayed(reply) == (reply.document == first.document) == (after == count) == is_committed
    )


async def aborted_transactions(database: Database) -> int:
    """Return how many transactions were aborted since the start of mongod."""
    status = await database.client.admin.command("serverStatus")
    count: int = status["transactions"]["totalAborted"]
    return count
