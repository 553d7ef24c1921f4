"""The client of MongoDB: opened when the service starts, closed when it ends."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from bson.codec_options import TypeRegistry
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.errors import PyMongoError

from registry.jsonapi.errors import Unavailable
from registry.settings import Settings, StartError
from registry.storage.codecs import DecimalCodec
from registry.storage.commands import Commands
from registry.storage.mongod.embedded import mongod

_OPTIONS: dict[str, Any] = {
    "appname": "registry",
    "w": "majority",
    "journal": True,
    "wTimeoutMS": 10_000,
    "readPreference": "primary",
    "serverSelectionTimeoutMS": 5_000,
    "tz_aware": True,
    "type_registry": TypeRegistry([DecimalCodec()]),
    # What another tool has stored is shown as well as it can be, and keeps nothing else from being.
    "unicode_decode_error_handler": "replace",
    "datetime_conversion": "DATETIME_AUTO",
}
"""What the service relies on, whatever MONGODB_URI says."""

_SOCKET_SECONDS = 10.0
"""How long an answer of MongoDB may take, beyond the time that a query is given."""

_ADVICE = "correct it or start that cluster, or leave it away for a private mongod"

logger = logging.getLogger("registry")


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Commands]:
    """Give the commands of a database: of the cluster in MONGODB_URI, or of a private mongod.

    A write is acknowledged when the majority has it in the journal. The client belongs to the
    running event loop. Raises StartError if there is no such database, or if it refuses what the
    service does with it before it serves.
    """
    async with AsyncExitStack() as stack:
        uri = settings.mongodb_uri
        if uri is None:
            uri = await stack.enter_async_context(mongod(settings))
        seconds = _SOCKET_SECONDS + settings.query_seconds
        client = _open(uri, seconds)
        stack.callback(client.close)
        try:
            await _check(client, settings.database)
            yield Commands(client[settings.database])
        except PyMongoError as error:
            if settings.mongodb_uri is None:
                raise StartError(f"the private mongod: {_reason(error)}") from error
            raise StartError(f"MONGODB_URI: {_reason(error)}; {_ADVICE}") from error


@contextmanager
def answering_unavailable() -> Iterator[None]:
    """Turn every failure of MongoDB into Unavailable, and log its cause."""
    try:
        yield
    except PyMongoError as error:
        logger.error("MongoDB failed: %s", error)  # noqa: TRY400 - one line for each request
        raise Unavailable from error


def _open(uri: str, seconds: float) -> AsyncIOMotorClient[dict[str, Any]]:
    try:
        with warnings.catch_warnings():
            # An option that is misspelt would be left out, be it one that protects.
            warnings.simplefilter("error", UserWarning)
            milliseconds = round(seconds * 1_000)
            return AsyncIOMotorClient(uri, **_OPTIONS, socketTimeoutMS=milliseconds)
    except (PyMongoError, ValueError, OSError, UserWarning) as error:
        raise StartError(f"MONGODB_URI: {_reason(error)}; {_ADVICE}") from error


async def _check(client: AsyncIOMotorClient[dict[str, Any]], database: str) -> None:
    hello = await client.admin.command("hello")
    if "setName" not in hello and hello.get("msg") != "isdbgrid":  # the mark of a mongos
        raise StartError(
            "MONGODB_URI: the server is not a member of a replica set: start it with --replSet "
            "and initiate the set, or leave MONGODB_URI away for a private mongod"
        )
    if not hello["isWritablePrimary"]:
        raise StartError(
            "MONGODB_URI: the server is not the primary of its replica set: "
            "leave directConnection away"
        )
    await client[database].list_collection_names()  # says whether a password is wanted


def _reason(error: Exception) -> str:
    """Return what pymongo says, without the state of the client that it adds."""
    return re.split(r" \(configured timeouts|, Timeout: |, full error: ", str(error))[0].rstrip(".")
