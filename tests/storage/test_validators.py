"""Validators: what MongoDB refuses, and how a start sets them."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from marshmallow import Schema
from pymongo.errors import WriteError

from registry.model.fields import Boolean, Date, DateTime, Decimal, Enumeration, Integer, String
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.storage.validators import prepare_validators
from tests.conftest import Serve
from tests.mongods import mongod_with_fail_points
from tests.support import CommandLog, Database, complete_record
from tests.waiting import eventually

PERSON = complete_record({"first_name": "Grace", "last_name": "Hopper"})


class AssetSchema(Schema):
    """Attributes of all stored types."""

    name = String(required=True)
    state = Enumeration("new", "old", load_default="new")
    is_used = Boolean(required=True, allow_none=True)
    size = Integer()
    price = Decimal()
    bought = Date()
    seen = DateTime()


ASSET = {"name": "A", "state": "new", "version": 1}
asset = ResourceType("asset", "assets", AssetSchema)


@pytest.mark.parametrize(
    "record",
    [
        {"_id": 0},
        {"_id": -1},
        {"_id": 5.0},
        {"_id": "5"},
        {"_id": {"a": 1}},
        {"first_name": None},
        {"last_name": 5},
        {"full_name": ["Grace"]},
        {"full_name": None},
        {"email": 5},
        {"password": 5},
        {"version": -1},
        {"version": 1.0},
        {"version": "1"},
        {"version": 10**18},
        {"created_at": datetime(2026, 2, 28, tzinfo=UTC)},
        {"updated_by": 5},
    ],
)
@pytest.mark.usefixtures("api")
async def test_an_invalid_person_is_refused(database: Database, record: dict[str, Any]) -> None:
    with pytest.raises(WriteError):
        await database.persons.insert_one({"_id": 5, **PERSON, **record})


@pytest.mark.parametrize("key", [1.0, "1", [1], {"id": 1}, True])
@pytest.mark.usefixtures("api")
async def test_a_foreign_key_is_an_integer_or_null(database: Database, key: object) -> None:
    for number, valid in enumerate((1, Int64(1), None), 1):
        await database.computers.insert_one(
            {"_id": number, "serial": "S", "version": 1, "person": valid}
        )
        with pytest.raises(WriteError):
            await database.computers.update_one({"_id": number}, {"$set": {"person": key}})


async def test_each_attribute_has_its_type(serve: Serve, database: Database) -> None:
    await serve((asset,))
    valid: list[dict[str, Any]] = [
        {},
        {"is_used": True, "size": 2**53 + 1, "price": Decimal128("1.50")},
        {"bought": "2026-02-28", "seen": datetime(2026, 2, 28, tzinfo=UTC), "is_used": None},
    ]
    for number, fields in enumerate(valid, 1):
        await database.assets.insert_one({"_id": number, **ASSET, **fields})
    invalid: list[dict[str, Any]] = [
        {"name": None},
        {"state": None},
        {"state": "other"},
        {"bought": "today"},
        {"is_used": "true"},
        {"size": 1.0},
        {"price": "1.50"},
        {"price": 1.5},
        {"bought": datetime(2026, 2, 28, tzinfo=UTC)},
        {"seen": "2026-02-28T12:30:00.000Z"},
    ]
    complete = ({**ASSET, **fields} for fields in invalid)
    for record in (*complete, {"name": "A", "version": 1}, {"state": "new", "version": 1}):
        with pytest.raises(WriteError):
            await database.assets.insert_one({"_id": 9, **record})


async def options(database: Database) -> list[dict[str, Any]]:
    """Return the options of the collections of persons and computers."""
    query = {"name": {"$in": ["persons", "computers"]}}
    collections = await database.list_collections(filter=query)
    return sorted(
        [collection async for collection in collections],
        key=lambda collection: str(collection["name"]),
    )


async def test_a_validator_is_replaced_only_if_it_differs(
    serve: Serve, database: Database, commands: CommandLog
) -> None:
    await serve()
    before = await options(database)
    commands.take("all")
    await serve()
    assert not {"collMod", "create"} & set(commands.names())
    await database.command("collMod", "persons", validator={})
    await serve()
    assert await options(database) == before


async def test_processes_may_set_validators_at_once(database: Database) -> None:
    graph = Graph([asset])
    for _ in range(5):
        await asyncio.gather(*(prepare_validators(database, graph) for _ in range(8)))
        with pytest.raises(WriteError):
            await database.assets.insert_one({"_id": 1})
        await database.command("collMod", "assets", validator={})


@pytest.mark.slow
async def test_a_validator_is_set_when_another_process_has_built_its_indexes(
    mongodb_uri: str,
) -> None:
    async with mongod_with_fail_points(mongodb_uri) as client:
        database = client.other
        await database.assets.insert_one(ASSET | {"_id": 1})

        async def hold(mode: str) -> None:
            await client.admin.command(
                "configureFailPoint", "hangAfterStartingIndexBuild", mode=mode
            )

        async def is_building() -> bool:
            stages: list[dict[str, Any]] = [
                {"$currentOp": {}},
                {"$match": {"command.createIndexes": "assets"}},
            ]
            return bool(await client.admin.aggregate(stages).to_list(None))

        await hold("alwaysOn")
        try:
            building = asyncio.ensure_future(database.assets.create_index("name"))
            assert await eventually(is_building)
            setting = asyncio.create_task(prepare_validators(database, Graph([asset])))
            await asyncio.wait([setting], timeout=0.5)
            assert not setting.done()
        finally:
            await hold("off")
        await asyncio.gather(building, setting)
        with pytest.raises(WriteError):
            await database.assets.insert_one({"_id": 2})
