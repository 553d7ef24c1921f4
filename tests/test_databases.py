"""Databases that tests use one after another are empty, and as the service prepares them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from registry.settings import Settings
from tests.databases import Databases, new_name, prepare

NAMES = {"first_name": "Ada", "last_name": "Lovelace"}

Change = Callable[[Database[dict[str, Any]]], object]


@pytest.fixture
async def database(
    mongodb_uri: str, drop: Callable[[str], object]
) -> AsyncIterator[Database[dict[str, Any]]]:
    """A database that the service has prepared."""
    await prepare(Settings(mongodb_uri=mongodb_uri, database=(name := new_name())))
    with MongoClient[Any](mongodb_uri) as client:
        yield client[name]
    drop(name)


@pytest.fixture
def databases(database: Database[dict[str, Any]]) -> Databases:
    """Only this database, taken by a test."""
    databases = Databases(database.client, database.name)
    assert databases.take() == database.name
    return databases


def test_a_database_is_emptied(databases: Databases, database: Database[dict[str, Any]]) -> None:
    database.persons.insert_one({"_id": 1, **NAMES})
    database.computers.insert_one({"_id": 1, "serial": "SN-1"})
    for name in ("counters", "tokens"):
        database[name].insert_one({"any": 1})
    assert databases.take() is None
    assert databases.put_back(database.name)
    assert databases.take() == database.name
    names = database.list_collection_names()
    assert {"persons", "computers", "counters"} <= set(names)
    assert sum(database[name].count_documents({}) for name in names) == 0
    assert "tokens" not in names


CHANGES: dict[str, Change] = {
    "another collection": lambda database: database.create_collection("other"),
    "a missing collection": lambda database: database.drop_collection("computers"),
    "another index": lambda database: database.persons.create_index("other"),
    "missing indexes": lambda database: database.persons.drop_indexes(),
    "a validator": lambda database: database.command("collMod", "persons", validator={"a": 1}),
    "many documents": lambda database: database.persons.insert_many(
        {"_id": id_, **NAMES} for id_ in range(1, 1_001)
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_database_that_a_test_has_changed_is_not_taken_again(
    change: Change, databases: Databases, database: Database[dict[str, Any]]
) -> None:
    change(database)
    assert not databases.put_back(database.name)
    assert databases.take() is None
