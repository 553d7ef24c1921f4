"""The leases by which all services of a database declare the same types."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import pymongo
from pymongo.errors import PyMongoError

from registry.program import StartError
from registry.storage import Database

SERVICES = "services"
"""The collection with a document for each lease: `{_id, digest, until}`."""

LEASE_SECONDS = 30
"""How long a process counts that was killed, or cannot reach the database."""

_RENEWAL_SECONDS = 10.0

_CLOSE_SECONDS = 1.0


@asynccontextmanager
async def types_lease(database: Database, digest: str) -> AsyncIterator[None]:
    """Hold a lease for the declared types with a digest.

    Raises StartError if another process holds one for other types; also PyMongoError.
    """
    services, id_ = database[SERVICES], uuid4().hex
    until = {"$add": ["$$NOW", LEASE_SECONDS * 1_000]}  # by the clock of the server

    async def renew() -> None:
        await services.update_one(
            {"_id": id_}, [{"$set": {"digest": digest, "until": until}}], upsert=True
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
        await services.delete_many({"$expr": {"$lt": ["$until", "$$NOW"]}})
        if other := await services.find_one({"digest": {"$ne": digest}}):
            raise StartError(
                f"a service of this database declares other types (digest {other['digest']}) than "
                f"this one (digest {digest}): give all the same file with --types or "
                "REGISTRY_TYPES, or stop it first; one that was killed counts for "
                f"{LEASE_SECONDS} s"
            )
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        with suppress(PyMongoError, TimeoutError), pymongo.timeout(_CLOSE_SECONDS):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await services.delete_one({"_id": id_})
