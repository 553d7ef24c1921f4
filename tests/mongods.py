"""Clients of mongod, embedded mongods, and further ones without or with a replica set."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pytest
from motor.motor_asyncio import AsyncIOMotorClient

from registry.model.graph import Graph
from registry.mongod import embedded
from registry.program import StartError
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect

Client = AsyncIOMotorClient[dict[str, Any]]

SOCKET = "./mongodb-27017.sock"


@asynccontextmanager
async def client_of(uri: str) -> AsyncIterator[Client]:
    with closing(Client(uri, serverSelectionTimeoutMS=60_000)) as client:
        yield client


_KILLED = """
import os, sys
from pymongo import MongoClient

uri, database, id_ = sys.argv[1:]
client = MongoClient(uri)
session = client.start_session()
session.start_transaction()
change = {"$set": {"first_name": "Killed"}}
client[database].persons.update_one({"_id": int(id_)}, change, session=session)
os._exit(0)
"""


async def leave_transaction(uri: str, database: str, person: int) -> None:
    """Run a process that ends within a transaction that has written a person."""
    arguments = ("-c", _KILLED, uri, database, str(person))
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    assert await process.wait() == 0


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
    """Start the program of the mongod at a URI once more, without data.

    Yields the new URI, once it responds.
    """
    program = await program_of(mongodb_uri)
    # Not in tmp_path, which is too long for a socket.
    with TemporaryDirectory(prefix="mongod-", dir="/tmp") as home:
        process = await asyncio.create_subprocess_exec(
            *(program, "--dbpath", home, "--bind_ip", SOCKET, "--unixSocketPrefix", "."),
            *options,
            cwd=home,
            stdout=asyncio.subprocess.DEVNULL,
        )
        new_uri = f"mongodb://{quote(f'{home}/{SOCKET}', safe='')}/?directConnection=true"
        try:
            async with client_of(new_uri) as client:
                await client.admin.command("ping")
            yield new_uri
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


async def connection_error(uri: str) -> str:
    """Return the line that says why the cluster cannot be used."""
    with pytest.raises(StartError) as caught:
        async with connect(Settings(mongodb_uri=uri), Graph(RESOURCES)):
            pass
    message = str(caught.value)
    assert message.startswith("MONGODB_URI: ")
    assert "\n" not in message
    return message
