"""The lease by which all services of a database declare the same types."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import pymongo
from pymongo.errors import PyMongoError

from registry.start_error import StartError
from registry.storage.mongo.mongo_client import Database

SERVICES = "services"
"""The collection with a document for each process that serves: `{_id, digest, until}`."""

LEASE_SECONDS = 30
"""How long a process counts that was killed, or cannot reach the database."""

_RENEWAL_SECONDS = 10.0

_CLOSE_SECONDS = 1.0

_log = logging.getLogger("registry")


@asynccontextmanager
async def types_lease(database: Database, digest: str) -> AsyncIterator[None]:
    """Hold a lease for the declared types with a digest.

    Raises StartError if another process holds one for other types; also PyMongoError.
    """
    services, id_ = database[SERVICES], uuid4().hex
    until = {"$add": ["$$NOW", LEASE_SECONDS * 1_000]}  # by the clock of the server

    async def renew() -> None:
        await services.update_one(
            {"_id": id_}, [{"$set": {"digest": digest, "until": until}}], True
        )

    async def keep() -> None:
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            with suppress(PyMongoError):  # it is renewed as soon as that is possible again
                await renew()

    # Stored first: of two that start at the same time, at least one finds the other.
    await renew()
    keeping = asyncio.create_task(keep())
    try:
        await _require_same(database, digest)
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        with suppress(PyMongoError), pymongo.timeout(_CLOSE_SECONDS):
            await services.delete_one({"_id": id_})


async def _require_same(database: Database, digest: str) -> None:
    services = database[SERVICES]
    expired: dict[str, Any] = {"$expr": {"$lt": ["$until", "$$NOW"]}}
    await services.delete_many(expired)
    if other := await services.find_one({"digest": {"$ne": digest}}):
        raise StartError(
            f"a service of this database declares other types (digest {other['digest']}) than "
            f"this one (digest {digest}): give all the same file with --types or REGISTRY_TYPES, "
            f"or stop it first; one that was killed counts for {LEASE_SECONDS} s"
        )
