"""Batched updates of attributes: exactly what each request asks for, once, and independently."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bson.objectid import ObjectId
from registry.storage.writes.record_updates import RecordUpdate, UpdateRequest

from registry.jsonapi.changes import Change
from registry.model.authorship import current_time
from registry.model.graph import Graph
from registry.model.record import WRITE_ID
from registry.resources import RESOURCES
from registry.storage.records import update_statement
from registry.storage.writes import optimistic_updates
from tests.support import Api, CommandLog, Database, Response

PERSON = Graph(RESOURCES)["person"]

EXTERNAL: list[dict[str, Any]] = [
    {"first_name": "Ada", "last_name": "King", "email": "a@x.org", "version": 3, "more": [1]},
    {"first_name": None, "last_name": 5},
    {"version": "new"},
    {"first_name": "Ada", "version": -3},
    {"first_name": "Ada", "version": 10**18},
    {"last_name": {"is": "$first_name"}, "version": 2.0, "full_name": "wrong"},
]

NEW: list[dict[str, Any]] = [
    {"last_name": "$first_name"},
    {"first_name": "$$ROOT", "last_name": "{$x}"},
    {"email": None},
    {"first_name": "Ada", "email": "b@x.org"},
]


def computed_update(record: dict[str, Any], attributes: dict[str, Any]) -> RecordUpdate:
    """Return the update of a record, computed in memory."""
    update = RecordUpdate(ObjectId(), time.monotonic())
    update.requests.append(UpdateRequest(record["_id"], Change(attributes, ()), None))
    update.apply(PERSON, record, current_time())
    return update


def statement(*updates: RecordUpdate) -> dict[str, Any]:
    return update_statement([(one.requests[0].id, one.version, one.fields) for one in updates])


async def patch(api: Api, id_: str, **attributes: Any) -> Response:
    return await api.patch(f"/persons/{id_}", {"type": "person", "attributes": attributes})


@asynccontextmanager
async def locked(database: Database, id_: str) -> AsyncIterator[None]:
    """Lock a person in a transaction of another client, which is then aborted."""
    async with await database.client.start_session() as session:
        session.start_transaction()
        change = {"$set": {"first_name": "Locked"}}
        await database.persons.update_one({"_id": int(id_)}, change, session=session)
        yield
        await session.abort_transaction()


@pytest.mark.covers("r.batching")
async def test_a_batched_update_stores_what_single_updates_store(database: Database) -> None:
    records = [record for record in EXTERNAL for _ in NEW]
    stored = [{"_id": number, **record} for number, record in enumerate(records)]
    stored[-1]["_id"] = float(stored[-1]["_id"])
    updates = [
        computed_update(record, NEW[number % len(NEW)]) for number, record in enumerate(stored)
    ]
    for name, statements in (
        ("single", [statement(update) for update in updates]),
        ("batched", [statement(*updates)]),
    ):
        await database[name].insert_many(stored)
        await database.command("update", name, updates=statements)
    single, batched = [
        await database[name].find().sort("_id").to_list(None) for name in ("single", "batched")
    ]
    assert (
        single
        == batched
        == [{**record, **update.fields} for record, update in zip(stored, updates, strict=True)]
    )
    names = [(record["full_name"], record["version"]) for record in single[:2]]
    assert names == [("Ada $first_name", 4), ("$$ROOT {$x}", 4)]


@pytest.mark.parametrize("count", [1, 3])
async def test_a_late_or_repeated_update_overwrites_nothing(database: Database, count: int) -> None:
    records = [{"_id": number, "last_name": "L", "version": 5} for number in range(count)]
    await database.persons.insert_many(records)
    late = statement(*(computed_update(record, {"last_name": "late"}) for record in records))
    newer = statement(*(computed_update(record, {"last_name": "newer"}) for record in records))
    for update, modified in ((newer, count), (late, 0), (newer, 0)):
        reply = await database.command("update", "persons", updates=[update])
        assert reply["nModified"] == modified
    assert await database.persons.count_documents({"last_name": "newer", "version": 6}) == count


async def test_an_update_takes_two_commands_and_none_if_nothing_changes(
    api: Api, database: Database, commands: CommandLog
) -> None:
    id_ = await api.person("Grace", "Hopper")
    commands.take("all")
    changed = await patch(api, id_, last_name="Murray")
    assert commands.names() == ["find", "update"]
    same = await patch(api, id_, first_name="Grace", last_name="Murray")
    assert commands.names() == ["find"]
    assert same.document == changed.document
    assert same.headers["ETag"] == changed.headers["ETag"]
    stored = await database.persons.find_one()
    assert stored is not None
    assert stored["version"] == 2
    assert WRITE_ID in stored
    assert "write" not in str((await api.get("/persons")).document)


async def test_a_locked_resource_does_not_delay_the_others(api: Api, database: Database) -> None:
    ids = [await api.person() for _ in range(20)]
    async with locked(database, ids[0]):
        first, *others = [asyncio.create_task(patch(api, id_, last_name="New")) for id_ in ids]
        for _ in range(2):
            assert {response.status for response in await asyncio.gather(*others)} == {200}
            others = [asyncio.create_task(patch(api, id_, email=None)) for id_ in ids[1:]]
        second = asyncio.create_task(patch(api, ids[0], email="g@example.com"))
        await asyncio.gather(*others)
        assert not first.done()
    assert ((await first).status, (await second).status) == (200, 200)
    stored = await database.persons.find().sort("_id").to_list(None)
    assert [(one["last_name"], one["version"]) for one in stored] == [("New", 3)] + [
        ("New", 2)
    ] * 19
    assert (stored[0]["first_name"], stored[0]["email"]) == ("Grace", "g@example.com")


async def test_the_others_of_a_batch_with_a_locked_resource_are_written_in_parts(
    api: Api, database: Database, commands: CommandLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimistic_updates, "_RETRY_SECONDS", 60.0)  # enough on any machine
    records = [{"_id": id_, "first_name": "Ada", "version": 1} for id_ in range(1, 202)]
    await database.persons.insert_many(records)
    async with locked(database, "1"):
        commands.take("update")
        # The first ones are in smaller batches. MongoDB updates a batch in the order of the ids.
        order = [*range(2, 62), 1, *range(62, 202)]
        tasks = {id_: asyncio.create_task(patch(api, str(id_), last_name="New")) for id_ in order}
        first = tasks.pop(1)
        assert {response.status for response in await asyncio.gather(*tasks.values())} == {200}
        assert len(commands.take("update")) < 40
    assert (await first).status == 200
    assert await database.persons.count_documents({"last_name": "New", "version": 2}) == 201


async def test_a_locked_resource_is_not_acknowledged_after_a_defect(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_, writes = await api.person(), 0
    statement_of = optimistic_updates._statement

    def fail_later(updates: dict[int, RecordUpdate]) -> dict[str, Any]:
        nonlocal writes
        writes += 1
        if writes > 1:
            raise TypeError("a defect")
        return statement_of(updates)

    monkeypatch.setattr(optimistic_updates, "_statement", fail_later)
    async with locked(database, id_):
        response = await patch(api, id_, last_name="Later")
    assert response.status == 503
    assert writes == 2


async def test_an_update_of_a_resource_that_stays_locked_is_not_applied_after_its_503(
    api: Api, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimistic_updates, "_RETRY_SECONDS", 0.5)
    ids = [await api.person() for _ in range(3)]
    async with locked(database, ids[0]):
        responses = await asyncio.gather(*(patch(api, id_, last_name="Old") for id_ in ids))
        assert [response.status for response in responses] == [503, 200, 200]
    assert (await patch(api, ids[0], email="new@example.com")).status == 200
    stored = await database.persons.find_one({"_id": 1})
    assert stored is not None
    assert (stored["last_name"], stored["version"]) == ("Hopper", 2)


async def test_exactly_one_of_concurrent_conditional_updates_succeeds(api: Api) -> None:
    id_ = await api.person()
    etag = (await api.get(f"/persons/{id_}")).headers["ETag"]
    responses = await asyncio.gather(
        *(
            api.request(
                "PATCH",
                f"/persons/{id_}",
                {"data": {"type": "person", "attributes": {"last_name": f"L{number}"}}},
                headers={"If-Match": etag},
            )
            for number in range(20)
        )
    )
    assert sorted(response.status for response in responses) == [200] + [412] * 19


@pytest.mark.covers("r.batching")
async def test_an_update_that_the_database_rejects_does_not_affect_the_others(
    api: Api, database: Database, commands: CommandLog
) -> None:
    ids = [await api.person() for _ in range(40)]
    await database.command("collMod", "persons", validator={"last_name": {"$ne": "rejected"}})
    names = ["rejected" if number % 10 == 5 else f"L{number}" for number in range(40)]
    commands.take("update")
    responses = await asyncio.gather(
        *(
            api.patch(f"/persons/{id_}", {"type": "person", "attributes": {"last_name": name}})
            for id_, name in zip(ids, names, strict=True)
        )
    )
    assert len(commands.take("update")) < 40  # one per request if nothing was batched
    for id_, name, response in zip(ids, names, responses, strict=True):
        record = await database.persons.find_one({"_id": int(id_)})
        assert record is not None
        if name == "rejected":
            assert response.status == 503
            assert record["last_name"] != name
        else:
            assert response.data["attributes"]["last_name"] == record["last_name"] == name


@pytest.mark.covers("r.batching")
async def test_each_concurrent_update_of_one_resource_returns_its_own_result(api: Api) -> None:
    id_ = await api.person("F", "L")
    bodies = [{"last_name": f"L{n}"} if n % 2 else {"first_name": f"F{n}"} for n in range(30)]
    responses = await asyncio.gather(
        *(api.patch(f"/persons/{id_}", {"type": "person", "attributes": body}) for body in bodies)
    )
    versions = set()
    for body, response in zip(bodies, responses, strict=True):
        assert body.items() <= response.data["attributes"].items()
        versions.add(response.headers["ETag"])
    assert len(versions) == 30
