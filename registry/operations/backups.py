"""Backups: all collections of a database at one point in time, as one compressed, checked file."""

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from zipfile import ZipFile

from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import BulkWriteError, PyMongoError

from registry import __version__
from registry.mongod.data_directory import RESERVE_BYTES, has_space
from registry.operations.backup_archive import (
    Backup,
    BackupError,
    Collection,
    Manifest,
    new_archive,
    split_documents,
    write_manifest,
)
from registry.operations.types_lease import SERVICES
from registry.storage import (
    INCOMPLETE_RESTORE,
    Database,
    SnapshotExpired,
    is_incomplete,
    reason_of,
    snapshot_session,
)

_NO_SPACE = f"the disk of {{}} has less than {RESERVE_BYTES // 2**20} MB of free space"


async def back_up(database: Database, file: IO[bytes]) -> Manifest:
    """Write all collections, as they are at one point in time, to a file, which may be a pipe.

    Clients may read and write meanwhile. Raises BackupError if it takes longer than MongoDB keeps a
    snapshot, or if MongoDB fails; also OSError.
    """
    time = datetime.now(UTC)
    with _translated_errors():
        async with snapshot_session(database) as session:
            with new_archive(file) as archive:
                collections = [
                    await _write(archive, database, name, session)
                    for name in sorted(await _collections(database))
                ]
                stamp = time.isoformat(timespec="seconds").replace("+00:00", "Z")
                manifest = Manifest(stamp, __version__, tuple(collections))
                write_manifest(manifest, archive)
    return manifest


async def restore(
    database: Database,
    backup: Backup,
    directory: Path | None = None,
    omitted: Container[str] = (),
) -> Manifest:
    """Write the content of a backup into an empty database; return what is written.

    directory: that of an embedded mongod, which would abort if its disk became full. omitted: names
    of collections to leave out. A database in which another restore was interrupted counts as
    empty. Raises BackupError if the backup is malformed, the database is not empty, its disk is
    nearly full, or MongoDB fails; also OSError.
    """
    kept = tuple(one for one in backup.manifest.collections if one.name not in omitted)
    with _translated_errors():
        await _clear(database)
        await database[INCOMPLETE_RESTORE].insert_one({"backup": backup.manifest.time})
        for collection in kept:
            for documents in backup.batches(collection):
                if directory is not None and not has_space(directory, RESERVE_BYTES):
                    raise BackupError(_NO_SPACE.format(directory))
                await database[collection.name].insert_many(documents, ordered=False)
        await database.drop_collection(INCOMPLETE_RESTORE)
    return replace(backup.manifest, collections=kept)


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except SnapshotExpired as error:
        raise BackupError(str(error)) from error
    except BulkWriteError as error:
        first, *_ = error.details["writeErrors"] or error.details["writeConcernErrors"]
        raise BackupError(f"MongoDB failed: {first['errmsg']:.300}") from error
    except PyMongoError as error:
        raise BackupError(f"MongoDB failed: {reason_of(error):.300}") from error


async def _collections(database: Database) -> list[str]:
    kinds = {
        "type": "collection",
        "name": {"$nin": [INCOMPLETE_RESTORE, SERVICES], "$not": {"$regex": "^system[.]"}},
    }
    names: list[str] = await database.list_collection_names(filter=kinds)
    return names


async def _write(
    archive: ZipFile, database: Database, name: str, session: AsyncIOMotorClientSession
) -> Collection:
    """Write the documents of a collection, as the session shows them, into the archive."""
    member, documents = f"{quote(name, safe='')}.bson", 0
    with archive.open(member, "w", force_zip64=True) as file:
        async for batch in database[name].find_raw_batches({}, session=session):
            file.write(batch)
            documents += sum(1 for _ in split_documents(batch))
    return Collection(name, member, documents)


async def _clear(database: Database) -> None:
    """Remove what an interrupted restore has left. Raises BackupError if there is other data."""
    names = await _collections(database)
    if not await is_incomplete(database):
        for name in names:
            if await database[name].find_one(_DATA.get(name, {})) is not None:
                raise BackupError(f"the database {database.name} is not empty: it has {name}")
    for name in names:
        await database.drop_collection(name)


_DATA: Mapping[str, Mapping[str, Any]] = {"counters": {"seq": {"$ne": 0}}}
"""The queries for documents that are not there in a new database."""
