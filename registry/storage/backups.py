"""Backups: all collections of a database at one point in time, as one compressed, checked file.

The file is a ZIP archive with a member of BSON documents per collection, in the form of mongodump,
and `manifest.json`. Its comment, at the very end, is the SHA-256 of all bytes before it.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from struct import unpack_from
from typing import IO, Any, Self
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZipFile

import orjson
from bson.raw_bson import RawBSONDocument
from motor.motor_asyncio import AsyncIOMotorClientSession
from pymongo.errors import PyMongoError

from registry import __version__
from registry.private_files import new_file
from registry.start_error import StartError
from registry.storage.client import Database
from registry.storage.mongod.disk import RESERVE_BYTES, has_space
from registry.storage.snapshot_session import SnapshotExpired, snapshot_session

_FORMAT = 1
"""The version of the file format; a reader refuses those that it does not know."""

_MANIFEST = "manifest.json"

_PREFIX = b"sha256:"
_COMMENT_LENGTH = len(_PREFIX) + 2 * hashlib.sha256().digest_size

_COMPRESSION_LEVEL = 1
"""Higher levels take several times as long for a tenth less space; the snapshot may not last."""

_BATCH_BYTES = 2**20
"""What is read, and restored, at once."""

_INCOMPLETE = "incomplete_restore"
"""The collection that exists, with the time of the backup, until a restore is complete."""


_NO_SPACE = f"the disk of {{}} has less than {RESERVE_BYTES // 2**20} MB of free space"


class BackupError(Exception):
    """A backup or restore that is not possible; the message is one line with the reason."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection in a backup. member: the name of its BSON documents in the archive."""

    name: str
    member: str
    documents: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup contains. time: of the snapshot, in UTC (RFC 3339). registry: the version."""

    time: str
    registry: str
    collections: tuple[Collection, ...]
    format: int = _FORMAT

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Return the manifest in a file. Raises BackupError for another version of the format."""
        values = orjson.loads(content)
        if values["format"] != _FORMAT:
            raise BackupError(f"its format {values['format']} is not one that this version reads")
        collections = (Collection(**each) for each in values.pop("collections"))
        return cls(**values, collections=tuple(collections))


async def back_up(database: Database, path: Path) -> Manifest:
    """Write all collections, as they are at one point in time, to a new file.

    Clients may read and write meanwhile. The file gets its name when it is complete. Raises
    BackupError if there is such a file, if it takes longer than MongoDB keeps a snapshot, or if
    MongoDB fails; also OSError.
    """
    time = datetime.now(UTC)
    with _translated_errors(), new_file(path) as file:
        async with snapshot_session(database) as session:
            with ZipFile(file, "w", ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:
                collections = [
                    await _write(archive, database, name, session)
                    for name in sorted(await _collections(database))
                ]
                stamp = time.isoformat(timespec="seconds").replace("+00:00", "Z")
                manifest = Manifest(stamp, __version__, tuple(collections))
                archive.writestr(_MANIFEST, orjson.dumps(asdict(manifest)))
                archive.comment = _PREFIX.ljust(_COMMENT_LENGTH, b"0")
        _seal(file)
    return manifest


@contextmanager
def open_backup(path: Path) -> Iterator[ZipFile]:
    """Yield a backup, the whole file of which is checked. Raises BackupError, also OSError."""
    with path.open("rb") as file:
        _check(file, path)
        with ZipFile(file) as archive:
            yield archive


async def restore(database: Database, backup: ZipFile, directory: Path | None = None) -> Manifest:
    """Write the content of a backup into an empty database.

    directory: that of an embedded mongod, which would abort if its disk became full. A database in
    which another restore was interrupted counts as empty. Raises BackupError if the format of the
    backup is unknown, the database is not empty, its disk is nearly full, or MongoDB fails; also
    OSError.
    """
    manifest = Manifest.parse(backup.read(_MANIFEST))
    with _translated_errors():
        await _clear(database)
        await database[_INCOMPLETE].insert_one({"backup": manifest.time})
        for collection in manifest.collections:
            with backup.open(collection.member) as member:
                for documents in _batches(member):
                    if directory is not None and not has_space(directory, RESERVE_BYTES):
                        raise BackupError(_NO_SPACE.format(directory))
                    await database[collection.name].insert_many(documents, ordered=False)
        await database.drop_collection(_INCOMPLETE)
    return manifest


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except SnapshotExpired as error:
        raise BackupError(str(error)) from error
    except PyMongoError as error:
        raise BackupError(f"MongoDB failed: {error}") from error


async def require_complete(database: Database) -> None:
    """Raise StartError if a restore into the database was interrupted; also PyMongoError."""
    if await _is_incomplete(database):
        raise StartError(
            f"the database {database.name} has only a part of a backup: "
            "restore it again, which removes that part, or choose another with --database"
        )


async def _is_incomplete(database: Database) -> bool:
    return bool(await database.list_collection_names(filter={"name": _INCOMPLETE}))


async def _collections(database: Database) -> list[str]:
    kinds = {"type": "collection", "name": {"$ne": _INCOMPLETE, "$not": {"$regex": "^system[.]"}}}
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
            documents += sum(1 for _ in _documents(batch))
    return Collection(name, member, documents)


def _batches(file: IO[bytes]) -> Iterator[list[Any]]:
    """Yield the documents of an archive member."""
    rest = b""
    while content := file.read(_BATCH_BYTES):
        batch = rest + content
        documents = list(_documents(batch))
        if documents:
            # Decoding and encoding would take most of the time, and lose what Python cannot
            # represent.
            yield list(map(RawBSONDocument, documents))
        rest = batch[sum(map(len, documents)) :]


def _documents(batch: bytes) -> Iterator[bytes]:
    """Yield the complete BSON documents at the beginning of a batch."""
    start = 0
    while start + 4 <= len(batch):
        (length,) = unpack_from("<i", batch, start)
        if start + length > len(batch):
            return
        yield batch[start : start + length]
        start += length


async def _clear(database: Database) -> None:
    """Remove what an interrupted restore has left. Raises BackupError if there is other data."""
    names = await _collections(database)
    if not await _is_incomplete(database):
        for name in names:
            if await database[name].find_one(_DATA.get(name, {})) is not None:
                raise BackupError(f"the database {database.name} is not empty: it has {name}")
    for name in names:
        await database.drop_collection(name)


_DATA: Mapping[str, Mapping[str, Any]] = {"counters": {"seq": {"$ne": 0}}}
"""The queries for documents that are not there in a new database."""


def _seal(file: IO[bytes]) -> None:
    """Write the checksum at the end of the archive, where its comment has room for it."""
    digest = _digest(file)
    file.seek(-len(digest), os.SEEK_END)
    file.write(digest)


def _check(file: IO[bytes], path: Path) -> None:
    """Raise BackupError unless the file is a whole backup."""
    size = file.seek(0, os.SEEK_END)
    if size < _COMMENT_LENGTH:
        raise BackupError(f"{path} is not a backup: it is too short")
    file.seek(size - _COMMENT_LENGTH)
    comment = file.read(_COMMENT_LENGTH)
    if not comment.startswith(_PREFIX) or comment[len(_PREFIX) :] != _digest(file):
        raise BackupError(f"{path} is damaged or incomplete, or not a backup: restore another one")


def _digest(file: IO[bytes]) -> bytes:
    """Return the checksum of everything before the place of the checksum, in hexadecimal."""
    sha256 = hashlib.sha256()
    remaining = file.seek(0, os.SEEK_END) - 2 * sha256.digest_size
    file.seek(0)
    while remaining > 0 and (content := file.read(min(_BATCH_BYTES, remaining))):
        sha256.update(content)
        remaining -= len(content)
    return sha256.hexdigest().encode()
