"""The databases of tests: of one mongod, in memory if possible, emptied after each use."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pymongo
from aiohttp import web
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from registry.app import create_app
from registry.http.app_keys import REPOSITORY
from registry.settings import Settings
from registry.storage import COLLECTION as TOKENS

_MEMORY, _MEMORY_BYTES = Path("/dev/shm"), 4 * 2**30  # noqa: S108 - subdirectories are private

_MAX_DOCUMENTS = 500
"""With more, a database is not emptied: dropping it is faster."""

_EMPTYING_SECONDS = 5.0
"""How long emptying a database may take: a transaction that a test has left open blocks it."""


@contextmanager
def data_directory() -> Iterator[Path]:
    """Yield a directory for mongod: in memory if there is room, where databases are made faster."""
    has_room = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES
    with TemporaryDirectory(prefix="registry-", dir=_MEMORY if has_room else None) as path:
        yield Path(path)


def new_name() -> str:
    """Return a name that no database has."""
    return f"test_{uuid4().hex}"


async def prepare(settings: Settings) -> None:
    """Create the collections and indexes of the service, as its first start does."""
    created = create_app(settings)
    runner = web.AppRunner(created)
    await runner.setup()
    await created[REPOSITORY].catch_up()
    await runner.cleanup()


class Databases:
    """Databases that tests use one after another, as to create and drop their collections is slow.

    reference: the name of a database that only the service has prepared.
    """

    def __init__(self, client: MongoClient[dict[str, Any]], reference: str) -> None:
        self._client = client
        self._indexes = client[reference].command("dbStats")["indexes"]
        self._collections = self._collections_of(reference)
        self._names: list[str] = []
        self.put_back(reference)

    def take(self) -> str | None:
        """Return the name of a database, now used by one test; None if all are used."""
        return self._names.pop() if self._names else None

    def put_back(self, name: str) -> bool:
        """Empty a database; return whether it is as if it were new, and may be taken again."""
        try:
            with pymongo.timeout(_EMPTYING_SECONDS):
                if not self._is_unchanged(name):
                    return False
                for collection in self._collections:
                    self._client[name][collection].delete_many({})
        except PyMongoError:
            return False
        self._names.append(name)
        return True

    def put_back_or_drop(self, name: str) -> None:
        """Empty a database, or drop it if it was changed."""
        if not self.put_back(name):
            self._client.drop_database(name)

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
