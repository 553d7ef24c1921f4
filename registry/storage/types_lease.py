"""The leases by which all services of a database declare the same types, and change them alone."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from uuid import uuid4

import pymongo
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, PyMongoError

from registry.start_error import StartError
from registry.storage.mongo.mongo_client import Database

_log = logging.getLogger("registry")

SERVICES = "services"
"""The collection with a document for each lease: `{_id, digest, holder, until}`."""

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
    async with _lease(database, _COMPLETION, digest):
        yield


@asynccontextmanager
async def _lease(database: Database, id_: str, digest: str) -> AsyncIterator[None]:
    """Wait until no other process holds a lease, store it, and renew it until the context ends."""
    services, holder = database[SERVICES], uuid4().hex
    until = {"$add": ["$$NOW", LEASE_SECONDS * 1_000]}
    own = {"_id": id_, "digest": digest, "holder": holder, "until": until}
    is_own, is_free = {"$eq": ["$holder", holder]}, _EXPIRED["$expr"]  # also if there is none
    update = {"$replaceWith": {"$cond": [{"$or": [is_own, is_free]}, own, "$$ROOT"]}}

    async def renew() -> bool:
        """Return whether this process holds it."""
        try:
            stored = await services.find_one_and_update(
                {"_id": id_}, [update], upsert=True, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError:  # another process has just stored it
            return False
        return bool(stored["holder"] == holder)

    async def keep() -> None:
        while True:
            await asyncio.sleep(_RENEWAL_SECONDS)
            with suppress(PyMongoError):  # it is renewed as soon as that is possible again
                await renew()

    for attempt in count():
        if await renew():
            break
        if not attempt:
            _log.info("Waiting for another service that completes stored records")
        await asyncio.sleep(_RETRY_SECONDS)
    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        with suppress(PyMongoError, TimeoutError), pymongo.timeout(_CLOSE_SECONDS):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await services.delete_one({"_id": id_, "holder": holder})
