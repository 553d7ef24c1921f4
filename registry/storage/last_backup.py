"""The time of the last complete backup, beside the number of the format of the data."""

from datetime import UTC, datetime

import pymongo

from registry.model.record import ID
from registry.storage.mongo.mongo_client import Database

SERVICE_COLLECTION = "registry"

LAST_BACKUP_ID = "backup"

_SECONDS = 5.0


async def store_last_backup(database: Database, time: datetime) -> None:
    """Store the time of a backup. Raises PyMongoError."""
    update = {"$max": {"time": time}}
    await database[SERVICE_COLLECTION].update_one({ID: LAST_BACKUP_ID}, update, upsert=True)


async def find_last_backup(database: Database) -> float:
    """Return the time of the last backup, in seconds since 1970; 0 without one.

    Raises PyMongoError.
    """
    with pymongo.timeout(_SECONDS):
        found = await database[SERVICE_COLLECTION].find_one({ID: LAST_BACKUP_ID})
    if found is None:
        return 0.0
    time: datetime = found["time"]
    return time.replace(tzinfo=UTC).timestamp()
