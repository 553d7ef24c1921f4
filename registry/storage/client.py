"""The MongoDB client: opened when the service starts, closed when it ends."""

import re
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorDatabase
from pymongo.errors import PyMongoError

from registry.model.graph import Graph
from registry.model.record import Record
from registry.settings import Settings, StartError
from registry.storage.bulkheads import check_connections
from registry.storage.codecs import codec_options
from registry.storage.mongod.embedded import mongod
from registry.storage.thread_pool import THREADS

Database: TypeAlias = AsyncIOMotorDatabase[Record]

APP_NAME = "registry"
"""By this name, MongoDB lists the connections of the service."""

_OPTIONS: dict[str, Any] = {
    "appname": APP_NAME,
    "w": "majority",
    "journal": True,
    "wTimeoutMS": 10_000,
    "readPreference": "primary",
    "serverSelectionTimeoutMS": 5_000,
    "maxPoolSize": THREADS,
    "tz_aware": True,
    # Undecodable external data is shown best effort rather than failing the response.
    "unicode_decode_error_handler": "replace",
    "datetime_conversion": "DATETIME_AUTO",
}
"""Options that MONGODB_URI cannot override."""

_SOCKET_SECONDS = 10.0
"""How long MongoDB may take to reply, in addition to the time limit of a query."""

_ADVICE = "correct it or start that cluster, or leave it unset for an embedded mongod"


@asynccontextmanager
async def connect(
    settings: Settings, graph: Graph, on_failure: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Database]:
    """Yield the database: of the cluster in MONGODB_URI, or of an embedded mongod.

    Writes are acknowledged by the majority and journaled. The client belongs to the running event
    loop. Raises StartError if the database cannot be reached, or rejects the first commands, or if
    the limits of the settings need too many connections.
    """
    check_connections(settings)
    async with AsyncExitStack() as stack:
        uri = settings.mongodb_uri
        if uri is None:
            uri = await stack.enter_async_context(mongod(settings, on_failure))
        client = _open(uri, _SOCKET_SECONDS + settings.query_seconds)
        stack.callback(client.close)
        try:
            await _check(client, settings.database)
            yield client.get_database(settings.database, codec_options(client.codec_options, graph))
        except PyMongoError as error:
            if settings.mongodb_uri is None:
                raise StartError(f"the embedded mongod: {_reason(error)}") from error
            raise StartError(f"MONGODB_URI: {_reason(error)}; {_ADVICE}") from error


def _open(uri: str, seconds: float) -> AsyncIOMotorClient[dict[str, Any]]:
    try:
        with warnings.catch_warnings():
            # pymongo only warns of a misspelt option and ignores it, even one for security.
            warnings.simplefilter("error", UserWarning)
            milliseconds = round(seconds * 1_000)
            return AsyncIOMotorClient(uri, **_OPTIONS, socketTimeoutMS=milliseconds)
    except (PyMongoError, ValueError, OSError, UserWarning) as error:
        raise StartError(f"MONGODB_URI: {_reason(error)}; {_ADVICE}") from error


async def _check(client: AsyncIOMotorClient[dict[str, Any]], database: str) -> None:
    hello = await client.admin.command("hello")
    if "setName" not in hello and hello.get("msg") != "isdbgrid":  # how a mongos identifies itself
        raise StartError(
            "MONGODB_URI: the server is not a member of a replica set: start it with --replSet "
            "and initiate the set, or leave MONGODB_URI unset for an embedded mongod"
        )
    if not hello["isWritablePrimary"]:
        raise StartError(
            "MONGODB_URI: the server is not the primary of its replica set: remove directConnection"
        )
    await client[database].list_collection_names()  # fails if authentication is required


def _reason(error: Exception) -> str:
    """Return pymongo's message, without the client state that it appends."""
    return re.split(r" \(configured timeouts|, Timeout: |, full error: ", str(error))[0].rstrip(".")
