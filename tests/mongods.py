"""Clients of mongod, embedded mongods, and further ones without or with a replica set."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import quote

import pytest
from motor.motor_asyncio import AsyncIOMotorClient

from registry.mongod import embedded
from registry.program import StartError
from registry.settings import Settings

Client = AsyncIOMotorClient[dict[str, Any]]

SOCKET = "./mongodb-27017.sock"


@asynccontextmanager
async def client_of(uri: str) -> AsyncIterator[Client]:
    client: Client = AsyncIOMotorClient(uri)
    try:
        yield client
    finally:
        client.close()


@asynccontextmanager
async def running(data_dir: Path, mongod: Path | None = None) -> AsyncIterator[Client]:
    """Run an embedded mongod on a data directory; yield a client of it."""
    settings = Settings(data_dir=data_dir, mongod=mongod)
    async with embedded.mongod(settings) as uri, client_of(uri) as client:
        yield client


async def start_error(data_dir: Path, mongod: Path | None = None) -> str:
    """Return the line that says why an embedded mongod cannot start."""
    with pytest.raises(StartError) as caught:
        async with running(data_dir, mongod):
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def program_of(uri: str) -> str:
    """Return the path of the mongod at a URI."""
    async with client_of(uri) as client:
        path: str = (await client.admin.command("getCmdLineOpts"))["argv"][0]
        return path


@asynccontextmanager
async def other_mongod(mongodb_uri: str, *options: str) -> AsyncIterator[str]:
    """Start the program of the mongod at a URI once more, without data; yield the new URI."""
    program = await program_of(mongodb_uri)
    # Not in tmp_path, which is too long for a socket.
    with TemporaryDirectory(prefix="mongod-", dir="/tmp") as home:
        process = await asyncio.create_subprocess_exec(
            *(program, "--dbpath", home, "--bind_ip", SOCKET, "--unixSocketPrefix", "."),
            *options,
            cwd=home,
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            yield f"mongodb://{quote(f'{home}/{SOCKET}', safe='')}/?directConnection=true"
        finally:
            process.terminate()
            await process.wait()


async def initiate(uri: str, host: str = SOCKET, name: str = "other") -> None:
    """Initiate a replica set whose only member is this mongod; wait until it is the primary."""
    async with client_of(uri) as client:
        members = [{"_id": 0, "host": host}]
        await client.admin.command("replSetInitiate", {"_id": name, "members": members})
        async with asyncio.timeout(60):
            while not (await client.admin.command("hello"))["isWritablePrimary"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@asynccontextmanager
async def mongod_with_fail_points(mongodb_uri: str) -> AsyncIterator[Client]:
    """Start another primary, which knows `configureFailPoint`; yield a client of it."""
    options = ("--replSet", "other", "--setParameter", "enableTestCommands=1")
    async with other_mongod(mongodb_uri, *options) as uri:
        await initiate(uri)
        async with client_of(uri) as client:
            yield client


class HeldIndexBuilds:
    """Index builds of a mongod with fail points, held before they read any record.

    collection: the one whose indexes are built.
    """

    _FAIL_POINT = "hangAfterStartingIndexBuild"

    def __init__(self, client: Client, collection: str) -> None:
        self._client = client
        self._collection = collection

    async def __aenter__(self) -> Self:
        await self._client.admin.command("configureFailPoint", self._FAIL_POINT, mode="alwaysOn")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.admin.command("configureFailPoint", self._FAIL_POINT, mode="off")

    async def begin(self, build: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a build; return when it is held."""
        task = asyncio.create_task(build)
        await self._client.admin.command(
            "waitForFailPoint", self._FAIL_POINT, timesEntered=1, maxTimeMS=60_000
        )
        return task

    async def join(self, build: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a build that needs the one that is held; return when it waits, or has ended."""
        task = asyncio.create_task(build)
        while await self._commands() < 2 and not task.done():
            pass
        return task

    async def _commands(self) -> int:
        """Return how many clients wait for the indexes."""
        command = {"command.createIndexes": self._collection, "connectionId": {"$exists": True}}
        stages: list[dict[str, Any]] = [{"$currentOp": {}}, {"$match": command}]
        return len(await self._client.admin.aggregate(stages).to_list(None))
