"""Batched updates of attributes store what single updates would."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo import UpdateOne

from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.storage.records import batch_update, recompute, update_pipeline
from tests.support import Api, CommandLog, Database

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


@pytest.mark.covers("r.batching")
async def test_a_batched_update_stores_what_single_updates_store(database: Database) -> None:
    records = [record for record in EXTERNAL for _ in NEW]
    updates = [(number, Change(NEW[number % len(NEW)], ())) for number in range(len(records))]
    stored = [{"_id": number, **record} for number, record in enumerate(records)]
    stored[-1]["_id"] = float(stored[-1]["_id"])
    single, batched = database.single, database.batched
    for collection in (single, batched):
        await collection.insert_many(stored)
    await single.bulk_write(
        [UpdateOne({"_id": id_}, update_pipeline(PERSON, one)) for id_, one in updates]
    )
    ids = [id_ for id_, _ in updates]
    await batched.update_many({"_id": {"$in": ids}}, batch_update(PERSON, updates))
    # Updates of other attributes leave missing computed fields missing.
    await single.update_many({}, recompute(PERSON))
    stored_single, stored_batched = [
        await collection.find().sort("_id").to_list(None) for collection in (single, batched)
    ]
    assert stored_single == stored_batched
    assert stored_single[0]["version"] == 4


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
