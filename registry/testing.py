"""Registries for tests, each with an empty database of one MongoDB; see docs/python-client.md."""

import asyncio
import shutil
import socket
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, TypeVar
from uuid import uuid4

import pymongo
from aiohttp import web
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from registry.app import create_app
from registry.http.app_keys import REPOSITORY
from registry.http.server import Runner
from registry.mongod import embedded
from registry.resources.types_file import read_types
from registry.settings import Settings
from registry.storage import COLLECTION as TOKENS

_Result = TypeVar("_Result")

_MEMORY, _MEMORY_BYTES = Path("/dev/shm"), 4 * 2**30  # noqa: S108 - subdirectories are private

_MAX_DOCUMENTS = 500
"""With more, a database is not emptied: dropping it is faster."""

_EMPTYING_SECONDS = 5.0
"""How long emptying a database may take: a transaction that a test has left open blocks it."""


def app(**settings: Any) -> web.Application:
    """Return a registry without resources, for `aiohttp_client` of pytest-aiohttp.

    settings: those of the service, by name; of `types`, also the name of the file. The first one
    starts a MongoDB for all, until `close`. Raises TypeError for an unknown setting, ValueError for
    an invalid file.
    """
    return _session().app(settings)


@contextmanager
def url(**settings: Any) -> Iterator[str]:
    """Yield the URL of a registry without resources, which a thread serves; as `app`."""
    session = _session()
    runner = session.run(session.serve(settings))
    host, port = runner.addresses[0]
    try:
        yield f"http://{host}:{port}"
    finally:
        session.run(runner.cleanup())


def close() -> None:
    """End MongoDB, if it has been started."""
    if _session.cache_info().currsize:
        _session().close()
        _session.cache_clear()


class _Session:
    """A mongod, and services that use it, in a thread with an event loop of its own."""

    def __init__(self) -> None:
        self._loop, self._end = asyncio.new_event_loop(), asyncio.Event()
        self._next: asyncio.Task[Runner] | None = None
        started = Future[tuple[str, Databases]]()
        work = self._loop.create_task(self._run(started))
        self._thread = Thread(target=self._loop.run_until_complete, args=(work,), daemon=True)
        self._thread.start()
        self._uri, self._databases = started.result()

    def app(self, settings: dict[str, Any]) -> web.Application:
        """Return an application, whose database others get when it has ended."""
        if isinstance(name_of_file := settings.get("types"), str):
            settings = {**settings, "types": read_types(name_of_file)}
        valid = Settings(mongodb_uri=self._uri, **settings)  # before a database is taken
        name = self._databases.take()
        created = create_app(replace(valid, database=name))

        async def put_back(_: web.Application) -> None:
            await asyncio.to_thread(self._databases.put_back_or_drop, name)

        created.on_cleanup.append(put_back)
        return created

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Return the result of a coroutine, which runs in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def serve(self, settings: dict[str, Any]) -> Runner:
        """Return a service; without settings the one that was started during the last test."""
        if settings:
            return await self._start(settings)
        # Taken out first: if it has failed, it fails one test only.
        following, self._next = self._next, None
        runner = await (following or self._start({}))
        self._next = self._loop.create_task(self._start({}))
        return runner

    async def _start(self, settings: dict[str, Any]) -> Runner:
        runner = Runner(self.app(settings))
        await runner.setup()
        await runner.listen(socket.create_server(("127.0.0.1", 0)))
        return runner

    def close(self) -> None:
        """End mongod and the thread."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    async def _run(self, started: "Future[tuple[str, Databases]]") -> None:
        try:
            with data_directory() as directory:
                async with embedded.mongod(Settings(data_dir=directory)) as uri:
                    await prepare(Settings(mongodb_uri=uri, database=(name := new_name())))
                    with MongoClient[dict[str, Any]](uri) as client:
                        started.set_result((uri, Databases(client, name)))
                        await self._end.wait()
                        if self._next:
                            await (await self._next).cleanup()
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)  # in the thread that waits for it


_session = cache(_Session)


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

    def take(self) -> str:
        """Return the name of a database that no other test uses."""
        return self._names.pop() if self._names else new_name()

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
        return {
            collection["name"]: collection["options"]
            for collection in self._client[name].list_collections()
        }
