"""Backups: all collections of a database at one point in time, as one compressed, checked file.

The file is a gzip stream of BSON documents: a header; for each collection one with its name, those
stored in it, and an empty one, which no collection has; at the end, another empty one. The checksum
of gzip shows damage, but not who wrote the file: a reader limits what it accepts.
"""

import zlib
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from gzip import BadGzipFile, GzipFile
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, PyMongoError

from registry import __version__
from registry.mongod.data_directory import RESERVE_BYTES, has_space
from registry.operations.upgrade import FORMAT_ID
from registry.storage.mongo.mongo_client import (
    INCOMPLETE_RESTORE,
    LAST_BACKUP_ID,
    SERVICE_COLLECTION,
    Database,
    SnapshotExpired,
    is_incomplete,
    reason_of,
    snapshot_session,
)

_FORMAT = 2
"""The version of the file format; a reader refuses unknown ones."""

_COMPRESSION_LEVEL = 1
"""Higher levels take several times as long for a tenth less space; the snapshot may not last."""

_END = bson.encode({})

_DOCUMENT_BYTES = 2**24
"""The largest document that MongoDB stores."""

_HEADER_BYTES = 1_000

_BATCH_BYTES = 2**20
"""Bytes restored at once; the last document may exceed them."""

_NO_SPACE = f"the disk of {{}} has less than {RESERVE_BYTES // 2**20} MB of free space"


class BackupError(Exception):
    """A backup or restore that is not possible; the message is one line with the reason."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup contains. time: of the snapshot. documents: how many, by collection."""

    time: str
    documents: Mapping[str, int]


class Backup:
    """A backup open for reading, after a check of the whole file."""

    def __init__(self, file: IO[bytes]) -> None:
        """Check the file. Raises BackupError, also OSError."""
        self._file = file
        documents = Counter[str]()
        for name, batch in self.batches():
            documents[name] += len(batch)
        self.manifest = Manifest(self._time, documents)

    def batches(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the documents, as many at a time as fit in memory, and their collection.

        The last batch of each collection may be empty.
        """
        self._file.seek(0)
        try:
            with BufferedReader(GzipFile(fileobj=self._file), _BATCH_BYTES) as file:
                self._time = _read_time(file)
                while name := _read_name(file):
                    yield from ((name, batch) for batch in _read_batches(file))
                _require(not file.read(1))
        except (BadGzipFile, EOFError, zlib.error, BSONError) as error:
            raise _damaged() from error


def _read_batches(file: IO[bytes]) -> Iterator[list[bytes]]:
    batch, size = list[bytes](), 0
    while (document := _read_document(file, _DOCUMENT_BYTES)) != _END:
        batch.append(document)
        size += len(document)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _read_time(file: IO[bytes]) -> str:
    header = bson.decode(_read_document(file, _HEADER_BYTES))
    if header.get("format") != _FORMAT:
        raise BackupError("its format is not one that this version reads")
    _require(isinstance(time := header.get("time"), str))
    return str(time)


def _read_name(file: IO[bytes]) -> str | None:
    """Return the name of the next collection, None after the last one."""
    document = _read_document(file, _HEADER_BYTES)
    if document == _END:
        return None
    name = bson.decode(document).get("collection")
    # Neither those of MongoDB itself, such as `system.views`, nor the mark of a restore.
    _require(isinstance(name, str) and not name.startswith("system."))
    _require(name not in {"", INCOMPLETE_RESTORE})
    return str(name)


def _read_document(file: IO[bytes], limit: int) -> bytes:
    head = file.read(4)
    length = int.from_bytes(head, "little")
    _require(len(_END) <= length <= limit)
    document = head + file.read(length - len(head))
    _require(len(document) == length)
    return document


def _require(is_right: bool) -> None:
    if not is_right:
        raise _damaged()


def _damaged() -> BackupError:
    return BackupError("it is damaged or incomplete, or not a backup: restore another one")


async def back_up(database: Database, file: IO[bytes]) -> Manifest:
    """Write all collections, as they are at one point in time, to a file, which may be a pipe.

    Clients may read and write meanwhile. Raises BackupError if it takes longer than MongoDB keeps a
    snapshot, or if MongoDB fails; also OSError.
    """
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    documents: dict[str, int] = {}
    with _translated_errors(), GzipFile("", "wb", _COMPRESSION_LEVEL, file) as archive:
        async with snapshot_session(database) as session:
            header = {"format": _FORMAT, "time": time, "registry": __version__}
            archive.write(bson.encode(header))
            for name in sorted(await _collections(database)):
                documents[name] = await database[name].count_documents({}, session=session)
                archive.write(bson.encode({"collection": name}))
                async for batch in database[name].find_raw_batches({}, session=session):
                    archive.write(batch)
                archive.write(_END)
            archive.write(_END)
    return Manifest(time, documents)


async def record_backup(database: Database, manifest: Manifest) -> None:
    """Store the time of a backup whose file is complete. Raises BackupError."""
    with _translated_errors():
        await database[SERVICE_COLLECTION].update_one(
            {"_id": LAST_BACKUP_ID},
            {"$max": {"time": datetime.fromisoformat(manifest.time)}},
            upsert=True,
        )


async def restore(
    database: Database,
    backup: Backup,
    directory: Path | None = None,
    omitted: Container[str] = (),
) -> Manifest:
    """Write the content of a backup into an empty database; return what is written.

    directory: that of an embedded mongod, which would abort if its disk became full. omitted: names
    of collections to leave out. A database in which another restore was interrupted counts as
    empty. Raises BackupError if the database is not empty, its disk is nearly full, or MongoDB
    fails; also OSError.
    """
    with _translated_errors():
        await _clear(database)
        await database[INCOMPLETE_RESTORE].insert_one({"backup": backup.manifest.time})
        for name, documents in backup.batches():
            if documents and name not in omitted:
                if directory is not None and not has_space(directory, RESERVE_BYTES):
                    raise BackupError(_NO_SPACE.format(directory))
                # Decoding and encoding would take most of the time, and lose what Python cannot
                # represent.
                raw = list(map(RawBSONDocument, documents))
                await database[name].insert_many(raw, ordered=False)
        await database.drop_collection(INCOMPLETE_RESTORE)
    counts = backup.manifest.documents.items()
    return Manifest(
        backup.manifest.time, {name: count for name, count in counts if name not in omitted}
    )


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except SnapshotExpired as error:
        raise BackupError(str(error)) from error
    except BulkWriteError as error:
        first, *_ = error.details["writeErrors"] or error.details["writeConcernErrors"]
        raise BackupError(f"MongoDB failed: {first['errmsg']:.300}") from error
    except BSONError as error:
        raise BackupError("it has a malformed document") from error
    except PyMongoError as error:
        raise BackupError(f"MongoDB failed: {reason_of(error):.300}") from error


async def _collections(database: Database) -> list[str]:
    kinds = {
        "type": "collection",
        "name": {"$nin": [INCOMPLETE_RESTORE], "$not": {"$regex": "^system[.]"}},
    }
    names: list[str] = await database.list_collection_names(filter=kinds)
    return names


async def _clear(database: Database) -> None:
    """Remove what an interrupted restore has left. Raises BackupError if there is other data."""
    names = await _collections(database)
    if not await is_incomplete(database):
        for name in names:
            if await database[name].find_one(_DATA.get(name, {})) is not None:
                raise BackupError(f"the database {database.name} is not empty: it has {name}")
    for name in names:
        await database.drop_collection(name)


_DATA: Mapping[str, Mapping[str, Any]] = {
    "counters": {"last": {"$ne": 0}, "seq": {"$ne": 0}},
    SERVICE_COLLECTION: {"_id": {"$nin": [FORMAT_ID, LAST_BACKUP_ID]}},
}
"""The queries for documents that a new database does not have."""
