"""Nothing is created twice, and no change lost, when connections break over a write."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from registry.settings import Settings
from registry.storage import client
from tests.conftest import Serve
from tests.proxy import Fate, Proxy
from tests.support import Answer, Api, Database

MANY = 30


@pytest.fixture
def proxy(mongodb_uri: str) -> Iterator[Proxy]:
    with Proxy(mongodb_uri).running() as proxy:
        yield proxy


@pytest.fixture
async def api(proxy: Proxy, serve: Serve, settings: Settings) -> Api:
    """The service behind the proxy."""
    return await serve(settings=replace(settings, mongodb_uri=proxy.uri))


async def post(api: Api, name: str) -> Answer:
    attributes = {"first_name": name, "last_name": "Hopper"}
    return await api.post("/persons", {"type": "person", "attributes": attributes})


async def names(database: Database) -> dict[str, str]:
    """Return the first names of all persons that are stored, by id."""
    found = await database.persons.find().to_list(None)
    return {str(record["_id"]): record["first_name"] for record in found}


@pytest.mark.covers("4.2.1", "r.shared")
@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REQUEST_LATE, Fate.ANSWER_LOST])
async def test_what_was_sent_when_connections_broke_is_created_once(
    proxy: Proxy, api: Api, database: Database, fate: Fate
) -> None:
    proxy.fate = fate
    wanted = [f"F{number}" for number in range(MANY)]
    tasks = [asyncio.create_task(post(api, name)) for name in wanted[:10]]
    while not proxy.harmed:  # noqa: ASYNC110 - the others are not to leave with the first
        await asyncio.sleep(0.01)
    answers = await asyncio.gather(*tasks, *(post(api, name) for name in wanted[10:]))
    assert len(proxy.harmed) > 1
    assert max(proxy.harmed.values()) == 2, "the driver repeats no insert"
    assert [answer.status for answer in answers] == [201] * MANY
    told = {answer.id: answer.data["attributes"]["first_name"] for answer in answers}
    assert sorted(told.values()) == sorted(wanted)
    assert await names(database) == told
    assert sorted(map(int, told)) == list(range(1, MANY + 1))


@pytest.mark.covers("r.shared")
@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.REQUEST_LATE, Fate.ANSWER_LOST])
async def test_what_was_changed_when_connections_broke_is_as_the_last_request_wants_it(
    proxy: Proxy, api: Api, database: Database, fate: Fate
) -> None:
    ids = [(await post(api, f"F{number}")).id for number in range(MANY)]

    async def patch(id_: str, last_name: str) -> Answer:
        attributes = {"last_name": last_name}
        return await api.patch(f"/persons/{id_}", {"type": "person", "attributes": attributes})

    proxy.verb, proxy.fate = "update", fate
    answers = await asyncio.gather(*(patch(id_, f"L{id_}") for id_ in ids))
    assert proxy.harmed
    assert [answer.status for answer in answers] == [200] * MANY
    for id_, answer in zip(ids, answers, strict=True):
        assert answer.data["attributes"]["last_name"] == f"L{id_}"
        stored = await database.persons.find_one({"_id": int(id_)})
        assert stored is not None
        assert stored["full_name"] == f"{stored['first_name']} L{id_}"
        assert answer.headers["ETag"].startswith(f'"{stored["version"]}-')


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(client._OPTIONS, "serverSelectionTimeoutMS", 1_000)


@pytest.mark.covers("d.error_document", "r.shared")
@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("fate", [Fate.REQUEST_LOST, Fate.ANSWER_LOST])
async def test_when_connections_break_for_good_all_are_told_and_nothing_is_there_twice(
    proxy: Proxy, api: Api, database: Database, fate: Fate
) -> None:
    proxy.fate, proxy.for_good = fate, True
    answers = await asyncio.gather(*(post(api, f"F{number}") for number in range(MANY)))
    for answer in answers:
        assert answer.status == 503
        assert answer.document["errors"][0]["code"] == "unavailable"
    assert proxy.harmed
    stored = list((await names(database)).values())
    assert len(stored) == len(set(stored))
    assert bool(stored) == (fate is Fate.ANSWER_LOST)
    proxy.fate, proxy.for_good = Fate.PASSED, False
    assert (await post(api, "Grace")).status == 201
