"""The data: persons and their computers, made inside of MongoDB, which is quicker than sending."""

from __future__ import annotations

from typing import Any

from motor.motor_asyncio import AsyncIOMotorDatabase

from registry.jsonapi.request_documents import Change
from registry.model.graph import Graph
from registry.model.resource import Resource
from registry.resources import RESOURCES
from registry.resources.computer import computer
from registry.resources.person import person
from registry.settings import Settings
from registry.storage.records import new_record, recompute
from registry.storage.repository import Repository

Database = AsyncIOMotorDatabase[dict[str, Any]]

COMPUTERS_EACH = 3
"""How many computers a person has."""

_FIRST_NAMES = ("Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "John", "Radia")
_LAST_NAMES = ("Allen", "Dijkstra", "Hopper", "Knuth", "Liskov", "Lovelace", "Perlman", "Turing")

_STEP = 7_919
"""A prime: the computers of a person do not lie beside each other."""

_BLOCK = 1_000


async def fill(database: Database, persons: int) -> None:
    """Store so many persons, COMPUTERS_EACH for each, with all ids from 1 up."""
    first, last = _one_of(_FIRST_NAMES, 1), _one_of(_LAST_NAMES, len(_FIRST_NAMES))
    email = {"$concat": ["person.", {"$toString": "$_id"}, "@example.com"]}
    names = {"first_name": first, "last_name": last, "email": email}
    await _fill(database, person, persons, names)
    owner = {"$toInt": {"$add": [{"$mod": [{"$multiply": ["$_id", _STEP]}, persons]}, 1]}}
    serial = {"serial": {"$concat": ["SN-", {"$toString": "$_id"}]}}
    await _fill(database, computer, COMPUTERS_EACH * persons, {**serial, "person": owner})


async def prepare(database: Database) -> None:
    """Store what the service makes at its start; it would not wait for indexes as large as here."""
    await Repository(database, Graph(RESOURCES), Settings().query_seconds).prepare()


async def remove_created(database: Database, persons: int) -> None:
    """Delete all persons beyond the first so many."""
    await database[person.collection].delete_many({"_id": {"$gt": persons}})


async def _fill(database: Database, resource: Resource, count: int, fields: dict[str, Any]) -> None:
    """Store the records with the ids up to this; fields: expressions on `_id`."""
    constant = new_record(resource, 0, Change(dict.fromkeys(resource.writable, ""), ()))
    del constant["_id"]
    # Of two ranges, as the numbers of one would have to fit in a document.
    stages: list[dict[str, Any]] = [
        {"$documents": [{"block": {"$range": [0, -(-count // _BLOCK)]}}]},
        {"$unwind": "$block"},
        {"$set": {"place": {"$range": [1, _BLOCK + 1]}}},
        {"$unwind": "$place"},
        {"$project": {"_id": {"$add": [{"$multiply": ["$block", _BLOCK]}, "$place"]}}},
        {"$match": {"_id": {"$lte": count}}},
        {"$set": {name: {"$literal": value} for name, value in constant.items()} | fields},
        *recompute(resource),
        {"$out": resource.collection},
    ]
    await database.aggregate(stages).to_list(None)


def _one_of(texts: tuple[str, ...], every: int) -> dict[str, Any]:
    """Return the expression that takes the next text for every so many ids."""
    index = {"$mod": [{"$floor": {"$divide": ["$_id", every]}}, len(texts)]}
    return {"$arrayElemAt": [list(texts), {"$toInt": index}]}
