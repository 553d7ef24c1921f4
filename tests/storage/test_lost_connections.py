"""Nothing is created twice, and no change is lost, when connections break during a write."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from registry.settings import Settings
from registry.storage.mongo import mongo_client
from tests.conftest import Serve
from tests.feed import following
from tests.proxy import Effect, Proxy
from tests.storage.waiting import eventually
from tests.support import Api, Database, Response

MANY = 30


@pytest.fixture
async def api(proxy: Proxy, serve: Serve, settings: Settings) -> Api:
    """The service behind the proxy. A repeated command must not conflict with itself."""
    unique = ("person.first_name", "person.last_name", "computer.serial")
    return await serve(settings=replace(settings, mongodb_uri=proxy.uri, unique=unique))


IN_A_GROUP: dict[str, Any] = {"relationships": {"computers": {"data": []}}}
"""What a single command cannot write, as it would the first of concurrent requests."""


async def post(api: Api, name: str, **more: Any) -> Response:
    attributes = {"first_name": name, "last_name": f"Hopper {name}"}
    return await api.post("/persons", {"type": "person", "attributes": attributes, **more})


async def patch(api: Api, id_: str, last_name: str, **more: Any) -> Response:
    data = {"type": "person", "attributes": {"last_name": last_name}, **more}
    return await api.patch(f"/persons/{id_}", data)


async def names(database: Database) -> dict[str, str]:
    """Return the first names of all persons that are stored, by id."""
    persons = await database.persons.find().to_list(None)
    return {str(record["_id"]): record["first_name"] for record in persons}


@pytest.mark.slow
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REQUEST_LATE, Effect.REPLY_LOST])
async def test_resources_are_created_once_when_connections_break(
    proxy: Proxy, api: Api, database: Database, effect: Effect
) -> None:
    proxy.effect = effect
    expected = [f"F{number}" for number in range(MANY)]
    tasks = [asyncio.create_task(post(api, name, **IN_A_GROUP)) for name in expected[:10]]
    assert await eventually(lambda: bool(proxy.affected))  # so that the others are in another group
    others = [post(api, name, **IN_A_GROUP) for name in expected[10:]]
    responses = await asyncio.gather(*tasks, *others)
    assert len(proxy.affected) > 1
    assert [response.status for response in responses] == [201] * MANY
    created = {response.id: response.data["attributes"]["first_name"] for response in responses}
    assert sorted(created.values()) == sorted(expected)
    assert await names(database) == created
    assert sorted(map(int, created)) == list(range(1, MANY + 1))


@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REQUEST_LATE, Effect.REPLY_LOST])
async def test_updates_are_applied_when_connections_break(
    proxy: Proxy, api: Api, database: Database, effect: Effect
) -> None:
    ids = [(await post(api, f"F{number}")).id for number in range(MANY)]
    proxy.verb, proxy.effect = "update", effect
    updates = [patch(api, id_, f"L{id_}", **IN_A_GROUP) for id_ in ids]
    responses = await asyncio.gather(*updates)
    assert proxy.affected
    assert [response.status for response in responses] == [200] * MANY
    for id_, response in zip(ids, responses, strict=True):
        assert response.data["attributes"]["last_name"] == f"L{id_}"
        stored = await database.persons.find_one({"_id": int(id_)})
        assert stored is not None
        assert stored["full_name"] == f"{stored['first_name']} L{id_}"
        assert stored["version"] == 2, "the update was applied twice"
        assert response.headers["ETag"].startswith('"2-')


@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REQUEST_LATE, Effect.REPLY_LOST])
async def test_a_single_command_is_executed_once_when_its_connection_breaks(
    proxy: Proxy, api: Api, database: Database, effect: Effect
) -> None:
    first = (await post(api, "Grace")).id
    proxy.verb, proxy.effect = "update", effect
    response = await patch(api, first, "Murray")
    proxy.verb = "insert"
    second = (await post(api, "Ada")).id
    assert len(proxy.affected) == 2
    assert response.status == 200
    stored = await database.persons.find().sort("_id").to_list(None)
    assert [(str(one["_id"]), one["last_name"], one["version"]) for one in stored] == [
        (first, "Murray", 2),
        (second, "Hopper Ada", 1),
    ]


@pytest.mark.parametrize("verb", ["insert", "commitTransaction"])
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
async def test_a_transaction_is_applied_once_when_its_connection_breaks(
    proxy: Proxy, api: Api, database: Database, effect: Effect, verb: str
) -> None:
    owner = {"data": {"type": "person", "id": (await post(api, "Grace")).id}}
    proxy.verb, proxy.effect, proxy.once = verb, effect, True
    attributes, relationships = {"serial": "SN-1"}, {"owner": owner}
    response = await api.post(
        "/computers",
        {"type": "computer", "attributes": attributes, "relationships": relationships},
    )
    assert proxy.affected
    assert response.status == 201
    assert await database.computers.distinct("_id") == [int(response.id)]


@pytest.fixture
def _short_server_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(mongo_client._OPTIONS, "serverSelectionTimeoutMS", 1_000)


@pytest.mark.slow
@pytest.mark.usefixtures("_short_server_selection")
@pytest.mark.parametrize("effect", [Effect.REQUEST_LOST, Effect.REPLY_LOST])
async def test_permanent_connection_loss_is_reported_to_all_callers_and_duplicates_nothing(
    proxy: Proxy, api: Api, database: Database, effect: Effect
) -> None:
    proxy.verb, proxy.effect, proxy.permanent = "commitTransaction", effect, True
    posts = [post(api, f"F{number}", **IN_A_GROUP) for number in range(MANY)]
    for response in await asyncio.gather(*posts):
        assert response.status == 503
        assert response.document["errors"][0]["code"] == "unavailable"
    assert proxy.affected
    stored = list((await names(database)).values())
    assert len(stored) == len(set(stored))
    assert bool(stored) == (effect is Effect.REPLY_LOST)
    proxy.effect, proxy.permanent = Effect.NONE, False
    assert (await post(api, "Grace")).status == 201


async def test_the_change_feed_continues_with_a_warning(
    proxy: Proxy, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(api) as feed:
        proxy.verb, proxy.effect, proxy.once = "getMore", Effect.REQUEST_LOST, True
        assert await eventually(lambda: bool(proxy.affected))
        created = await post(api, "Grace")
        assert [one["data"]["id"] for one in await feed.changes(1)] == [created.id]
    levels = {one.levelname for one in caplog.records if "MongoDB" in one.getMessage()}
    assert levels == {"WARNING"}
