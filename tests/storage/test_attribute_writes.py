"""Changes of attributes that are made together are those that each would have made alone."""

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

OF_OTHER_TOOLS: list[dict[str, Any]] = [
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


@pytest.mark.covers("r.shared")
async def test_a_joint_change_stores_what_single_ones_store(database: Database) -> None:
    records = [record for record in OF_OTHER_TOOLS for _ in NEW]
    asked = [(number, Change(NEW[number % len(NEW)], ())) for number in range(len(records))]
    stored = [{"_id": number, **record} for number, record in enumerate(records)]
    stored[-1]["_id"] = float(stored[-1]["_id"])
    alone, together = database.alone, database.together
    for collection in (alone, together):
        await collection.insert_many(stored)
    await alone.bulk_write(
        [UpdateOne({"_id": id_}, update_pipeline(PERSON, one)) for id_, one in asked]
    )
    ids = [id_ for id_, _ in asked]
    await together.update_many({"_id": {"$in": ids}}, batch_update(PERSON, asked))
    await alone.update_many({}, recompute(PERSON))  # where a change is of other attributes alone
    found = [await one.find().sort("_id").to_list(None) for one in (alone, together)]
    assert found[0] == found[1]
    assert found[0][0]["version"] == 4


@pytest.mark.covers("r.shared")
async def test_a_change_that_the_database_refuses_fails_alone(
    api: Api, database: Database, commands: CommandLog
) -> None:
    ids = [await api.person() for _ in range(40)]
    await database.command("collMod", "persons", validator={"last_name": {"$ne": "refused"}})
    names = ["refused" if number % 10 == 5 else f"L{number}" for number in range(40)]
    commands.take("update")
    answers = await asyncio.gather(
        *(
            api.patch(f"/persons/{id_}", {"type": "person", "attributes": {"last_name": name}})
            for id_, name in zip(ids, names, strict=True)
        )
    )
    assert len(commands.take("update")) < 40
    for id_, name, answer in zip(ids, names, answers, strict=True):
        record = await database.persons.find_one({"_id": int(id_)})
        assert record is not None
        if name == "refused":
            assert answer.status == 503
            assert record["last_name"] != name
        else:
            assert answer.data["attributes"]["last_name"] == record["last_name"] == name


@pytest.mark.covers("r.shared")
async def test_of_changes_of_one_resource_in_flight_each_sees_its_own(api: Api) -> None:
    id_ = await api.person("F", "L")
    bodies = [{"last_name": f"L{n}"} if n % 2 else {"first_name": f"F{n}"} for n in range(30)]
    answers = await asyncio.gather(
        *(api.patch(f"/persons/{id_}", {"type": "person", "attributes": body}) for body in bodies)
    )
    versions = set()
    for body, answer in zip(bodies, answers, strict=True):
        assert body.items() <= answer.data["attributes"].items()
        versions.add(answer.headers["ETag"])
    assert len(versions) == 30
