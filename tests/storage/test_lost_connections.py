"""Nothing is written twice, and no change is lost, when connections break or keys are repeated."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from registry.settings import Settings
from tests.conftest import Serve
from tests.feed import following
from tests.proxy import Effect, Proxy
from tests.support import (
    COMPUTER,
    IDEMPOTENCY_KEY,
    PERSON,
    REPLAYED,
    Api,
    Database,
    Response,
    add,
    new,
    send_with_key,
    stored_records,
)
from tests.waiting import eventually

MANY = 30

BROKEN = pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])

OPERATIONS = [add(PERSON), add(COMPUTER)]

REQUESTS: list[tuple[str, Any]] = [
    ("/persons", PERSON),
    ("/persons?include=computers", PERSON),
    ("/operations", OPERATIONS),
]


@pytest.fixture
async def behind_proxy(proxy: Proxy, serve: Serve, settings: Settings) -> Api:
    """The service behind the proxy. A repeated command must not conflict with itself."""
    unique = ("person.first_name", "computer.serial")
    return await serve(settings=replace(settings, mongodb_uri=proxy.uri, unique=unique))


async def post(api: Api, name: str) -> Response:
    return await api.post("/persons", new("person", first_name=name, last_name="Hopper"))


async def names(database: Database) -> dict[str, str]:
    """Return the first names of all persons that are stored, by id."""
    persons = await database.persons.find().to_list(None)
    return {str(record["_id"]): record["first_name"] for record in persons}


@pytest.mark.slow
@BROKEN
async def test_resources_are_created_once_when_connections_break(
    proxy: Proxy, behind_proxy: Api, database: Database, effect: Effect
) -> None:
    proxy.effect = effect
    expected = [f"F{number}" for number in range(MANY)]
    tasks = [asyncio.create_task(post(behind_proxy, name)) for name in expected[:10]]
    assert await eventually(lambda: bool(proxy.affected))  # so that the others are in another group
    others = [post(behind_proxy, name) for name in expected[10:]]
    responses = await asyncio.gather(*tasks, *others)
    assert len(proxy.affected) > 1
    assert [response.status for response in responses] == [201] * MANY
    created = {response.id: response.data["attributes"]["first_name"] for response in responses}
    assert sorted(created.values()) == sorted(expected)
    assert await names(database) == created
    assert sorted(map(int, created)) == list(range(1, MANY + 1))


@BROKEN
async def test_updates_are_applied_when_connections_break(
    proxy: Proxy, behind_proxy: Api, database: Database, effect: Effect
) -> None:
    ids = [(await post(behind_proxy, f"F{number}")).id for number in range(MANY)]
    proxy.verb, proxy.effect = "update", effect
    updates = [
        behind_proxy.patch(f"/persons/{id_}", new("person", last_name=f"L{id_}")) for id_ in ids
    ]
    responses = await asyncio.gather(*updates)
    assert proxy.affected
    assert [response.status for response in responses] == [200] * MANY
    stored = await database.persons.find().sort("_id").to_list(None)
    for record, response in zip(stored, responses, strict=True):
        assert response.data["attributes"]["last_name"] == f"L{record['_id']}"
        assert record["full_name"] == f"{record['first_name']} L{record['_id']}"
        assert record["version"] == 2, "the update was applied twice"
        assert response.headers["ETag"].startswith('"2-')


async def test_the_change_feed_continues_when_a_connection_breaks(
    proxy: Proxy, behind_proxy: Api
) -> None:
    async with following(behind_proxy) as feed:
        proxy.verb, proxy.effect, proxy.once = "getMore", Effect.REQUEST_LOST, True
        assert await eventually(lambda: bool(proxy.affected))
        created = await post(behind_proxy, "Grace")
        assert [change["data"]["id"] for change in await feed.changes(1)] == [created.id]


@pytest.fixture
async def impatient(proxy: Proxy, serve: Serve, settings: Settings) -> Api:
    """A service whose connections to the database can break."""
    settings = replace(settings, query_seconds=2.0, mongodb_uri=proxy.uri)
    return await serve(settings=settings, queue_seconds=2.0)


@pytest.fixture
async def _no_open_transactions(database: Database) -> AsyncIterator[None]:
    yield
    # Those whose service is gone would delay the drop of the database by a minute.
    await database.client.admin.command("killAllSessions", [])


@pytest.mark.slow
@pytest.mark.usefixtures("_no_open_transactions")
@pytest.mark.parametrize(
    ("verb", "effect"),
    [
        ("insert", Effect.REQUEST_LOST),
        ("commitTransaction", Effect.REQUEST_LOST),
        ("commitTransaction", Effect.REPLY_LOST),
    ],
)
async def test_a_repeated_request_of_unknown_outcome_is_executed_once(
    proxy: Proxy, impatient: Api, api: Api, database: Database, effect: Effect, verb: str
) -> None:
    """The first service loses its connections, and has them again after another one has replied."""
    proxy.verb, proxy.effect, proxy.permanent = verb, effect, True
    lost = await asyncio.gather(*(send_with_key(impatient, *request) for request in keyed("key")))
    assert proxy.affected
    assert [reply.status for reply in lost] == [503] * len(REQUESTS)
    repeated = await asyncio.gather(*(send_with_key(api, *request) for request in keyed("key")))
    assert [reply.status for reply in repeated] == [201, 201, 200]
    proxy.effect, proxy.permanent = Effect.NONE, False
    again = await asyncio.gather(*(send_with_key(api, *request) for request in keyed("key")))
    assert [reply.document for reply in again] == [reply.document for reply in repeated]
    assert list(map(len, await stored_records(database))) == [3, 1]


def keyed(key: str) -> list[tuple[str, Any, str]]:
    """Return the requests, each with a key of its own."""
    return [(path, data, f"{key}-{number}") for number, (path, data) in enumerate(REQUESTS)]


@pytest.mark.parametrize("verb", ["insert", "commitTransaction"])
@BROKEN
async def test_creations_with_keys_are_executed_once_when_a_connection_breaks(
    proxy: Proxy, behind_proxy: Api, database: Database, effect: Effect, verb: str
) -> None:
    proxy.verb, proxy.effect, proxy.once = verb, effect, True
    persons = [new("person", first_name=f"F{number}", last_name="Hopper") for number in range(10)]
    replies = await asyncio.gather(
        *(
            send_with_key(behind_proxy, "/persons", each, f"key-{number}")
            for number, each in enumerate(persons)
        )
    )
    assert proxy.affected
    assert [reply.status for reply in replies] == [201] * 10
    stored = await database.persons.distinct("_id")
    assert sorted(int(reply.id) for reply in replies) == stored


@pytest.mark.parametrize(("path", "data"), REQUESTS)
@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_request_waits_for_another_process_that_executes_it(
    api: Api, database: Database, path: str, data: Any, *, is_committed: bool
) -> None:
    """The other process is played by a transaction that has inserted the result."""
    first = await send_with_key(api, path, data, IDEMPOTENCY_KEY)
    result = await database.idempotency_keys.find_one_and_delete({})
    assert result is not None
    count = sum(map(len, await stored_records(database)))
    async with await database.client.start_session() as session:
        session.start_transaction()
        await database.idempotency_keys.insert_one(result, session=session)
        before = await aborted_transactions(database)

        async def has_conflicted() -> bool:
            return await aborted_transactions(database) > before

        second = asyncio.create_task(send_with_key(api, path, data, IDEMPOTENCY_KEY))
        assert await eventually(has_conflicted)
        assert not second.done()
        if is_committed:
            await session.commit_transaction()
        else:
            await session.abort_transaction()
    reply = await second
    after = sum(map(len, await stored_records(database)))
    assert reply.status == first.status
    is_replayed = REPLAYED in reply.headers
    assert is_replayed == (reply.document == first.document) == (after == count) == is_committed


async def aborted_transactions(database: Database) -> int:
    """Return how many transactions were aborted since the start of mongod."""
    status = await database.client.admin.command("serverStatus")
    count: int = status["transactions"]["totalAborted"]
    return count
