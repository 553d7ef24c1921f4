"""Databases that tests use one after another, as creating and dropping their tables is slow."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pymongo
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from registry.capacity import Capacity
from registry.model.graph import Graph
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect
from registry.storage.repository import Repository
from registry.storage.tokens import COLLECTION as TOKENS

_MAX_DOCUMENTS = 500
"""With more, a database is not emptied: dropping it is faster."""

_SECONDS = 5.0
"""How long emptying a database may take: a transaction that a test has left open blocks it."""


class Databases:
    """Empty databases with the collections and indexes that the service creates at its start.

    reference: the name of a database that only the service has prepared.
    """

    def __init__(self, client: MongoClient[dict[str, Any]], reference: str) -> None:
        self._client = client
        self._indexes = client[reference].command("dbStats")["indexes"]
        self._collections = self._collections_of(reference)
        self._names: list[str] = []
        assert self.put_back(reference)

    def take(self) -> str | None:
        """Return the name of a database, now used by one test; None if all are used."""
        return self._names.pop() if self._names else None

    def put_back(self, name: str) -> bool:
        """Empty a database; return whether it is as if it were new, and may be taken again."""
        try:
            with pymongo.timeout(_SECONDS):
                if not self._is_unchanged(name):
                    return False
                for collection in self._collections:
                    self._client[name][collection].delete_many({})
        except PyMongoError:
            return False
        self._names.append(name)
        return True

    def _is_unchanged(self, name: str) -> bool:
        """Return whether a database differs from the reference by a few documents at most."""
        collections, database = self._collections_of(name), self._client[name]
        if collections.pop(TOKENS, None) is not None:  # created for the first token
            database.drop_collection(TOKENS)
        statistics = database.command("dbStats")
        return (
            collections == self._collections
            and statistics["indexes"] == self._indexes
            and statistics["objects"] <= _MAX_DOCUMENTS
        )

    def _collections_of(self, name: str) -> dict[str, Any]:
        """Return the options of each collection by its name."""
        return {one["name"]: one["options"] for one in self._client[name].list_collections()}


def new_name() -> str:
    """Return a name that no database has."""
    return f"test_{uuid4().hex}"


async def prepare(settings: Settings) -> None:
    """Create the collections and indexes of the service, as its first start does."""
    graph = Graph(RESOURCES)
    async with connect(settings, graph) as database:
        repository = Repository(database, graph, Capacity.of(settings))
        await repository.prepare()
        await repository.catch_up()
        await repository.close()
