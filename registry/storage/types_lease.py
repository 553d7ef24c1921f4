"""The leases by which all services of a database declare the same types, and change them alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import pymongo
from pymongo.errors import DuplicateKeyError, PyMongoError

from registry.start_error import StartError
from registry.storage.mongo.mongo_client import Database

SERVICES = "services"
"""The collection with a document for each lease: `{_id, digest, until}`."""

LEASE_SECONDS = 30
"""How long a process counts that was killed, or cannot reach the database."""

_RENEWAL_SECONDS = 10.0

_RETRY_SECONDS = 0.5

_CLOSE_SECONDS = 1.0

_COMPLETION = "completion"
"""The id of the lease of the process that completes stored records."""

_EXPIRED = {"$expr": {"$lt": ["$until", "$$NOW"]}}  # by the clock of the server


@asynccontextmanager
async def types_lease(database: Database, digest: str) -> AsyncIterator[None]:
    """Hold a lease for the declared types with a digest.

    Raises StartError if another process holds one for other types; also PyMongoError.
    """
    # Stored first: of two that start at the same time, at least one finds the other.
    async with _lease(database, uuid4().hex, digest):
        await database[SERVICES].delete_many(_EXPIRED)
        if other := await database[SERVICES].find_one({"digest": {"$ne": digest}}):
            raise StartError(
                f"a service of this database declares other types (digest {other['digest']}) than "
                f"this one (digest {digest}): give all the same file with --types or "
                "REGISTRY_TYPES, or stop it first; one that was killed counts for "
                f"{LEASE_SECONDS} s"
            )
        yield


@asynccontextmanager
async def completion_lease(database: Database, digest: str) -> AsyncIterator[None]:
    """Wait until no other process holds this lease, and hold it. Raises PyMongoError."""
    while True:
        try:
            await database[SERVICES].insert_one({"_id": _COMPLETION, "digest": digest})
            break
        except DuplicateKeyError:
            await database[SERVICES].delete_one({"_id": _COMPLETION, **_EXPIRED})
            await asyncio.sleep(_RETRY_SECONDS)
    async with _lease(database, _COMPLETION, digest):
        yield


@asynccontextmanager
async def _lease(database: Database, id_: str, digest: str) -> AsyncIterator[None]:
    """Store a lease, and renew it until the end of the context."""
    services = database[SERVICES]
    fields = {"digest": digest, "until": {"$add": ["$$NOW", LEASE_SECONDS * 1_000]}}

    async def renew() -> None:
        await services.update_one({"_id": id_}, [{"$set": fields}], upsert=True)

    async def keep() -> None:
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            with suppress(PyMongoError):  # it is renewed as soon as that is possible again
                await renew()

    await renew()
    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        with suppress(PyMongoError, TimeoutError), pymongo.timeout(_CLOSE_SECONDS):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await services.delete_one({"_id": id_})
