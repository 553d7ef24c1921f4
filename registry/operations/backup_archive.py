"""The file of a backup: a ZIP archive with a member of BSON documents for each collection.

The documents are in the form of mongodump, and `manifest.json` lists the collections. The comment,
at the very end, is the SHA-256 of all bytes before it. It shows damage, but not who has written the
file: a reader checks and bounds everything that it takes from it.
"""

import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import BufferedReader, FileIO
from struct import error as StructError  # noqa: N812 - a class
from struct import unpack_from
from typing import IO, Self, cast
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

import orjson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from marshmallow import Schema, ValidationError, fields, validate

from registry.storage import INCOMPLETE_RESTORE

_FORMAT = 1
"""The version of the file format; a reader refuses those that it does not know."""

_MANIFEST = "manifest.json"

_PREFIX = b"sha256:"
_PLACEHOLDER = _PREFIX + b"0" * 2 * hashlib.sha256().digest_size

_COMPRESSION_LEVEL = 1
"""Higher levels take several times as long for a tenth less space; the snapshot may not last."""

_MAX_RATIO = 300
"""Bytes in an archive per byte of its file: zlib reaches 229 at this level, 1,029 at others."""

_CHUNK_BYTES = 2**20
"""What is read, and restored, at once."""

_DEFECTS = (
    *(BadZipFile, zlib.error, StructError, BSONError),
    *(ArithmeticError, EOFError, LookupError, RuntimeError, ValueError),
)
"""What zipfile and bson raise for a malformed file."""

_DOCUMENT_BYTES = range(5, 2**24 + 1)
"""The size of a BSON document: from that of an empty one to the most that MongoDB stores."""


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
        """Return the manifest in a file. Raises BackupError if this version cannot read it."""
        try:
            values = orjson.loads(content)
            if isinstance(values, dict) and values.get("format", _FORMAT) != _FORMAT:
                raise BackupError("its format is not one that this version reads")
            loaded = _ManifestSchema().load(values)
        except (orjson.JSONDecodeError, ValidationError) as error:
            raise BackupError(f"its {_MANIFEST} is malformed") from error
        collections = tuple(Collection(**each) for each in loaded.pop("collections"))
        if len({one.name for one in collections}) < len(collections):
            raise BackupError(f"its {_MANIFEST} is malformed")
        return cls(**loaded, collections=collections)


class _CollectionSchema(Schema):
    # Neither those of MongoDB itself, such as `system.views`, nor the mark of a restore.
    name = fields.String(
        required=True,
        validate=validate.Regexp(rf"(?!system[.]|{INCOMPLETE_RESTORE}\Z)(?s:.{{1,255}})\Z"),
    )
    member = fields.String(required=True)
    documents = fields.Integer(required=True, strict=True)


class _ManifestSchema(Schema):
    format = fields.Integer(required=True, strict=True)
    time = fields.String(required=True, validate=validate.Regexp(r"[0-9:TZ-]{20}\Z"))
    registry = fields.String(required=True)
    collections = fields.List(fields.Nested(_CollectionSchema), required=True)


class Backup:
    """A backup that is open for reading. The methods raise BackupError if it is malformed."""

    def __init__(self, archive: ZipFile, size: int) -> None:
        """Read the manifest. size: of the file, in bytes."""
        self._archive = archive
        with self._member(_MANIFEST) as file:
            content = file.read(_CHUNK_BYTES)
            if file.read(1):
                raise BackupError(f"its {_MANIFEST} is too large")
        self.manifest = Manifest.parse(content)
        members = [archive.getinfo(one.member) for one in self.manifest.collections]
        if sum(member.file_size for member in members) > _MAX_RATIO * size:
            raise BackupError(f"it inflates to more than {_MAX_RATIO} times its size")

    def batches(self, collection: Collection) -> Iterator[list[RawBSONDocument]]:
        """Yield the documents of a collection, as many at a time as fit in memory."""
        rest, count = b"", 0
        with _reported_defects(), self._member(collection.member) as file:
            while content := file.read(_CHUNK_BYTES):
                batch = rest + content
                documents = list(split_documents(batch))
                if documents:
                    # Decoding and encoding would take most of the time, and lose what Python
                    # cannot represent.
                    yield list(map(RawBSONDocument, documents))
                count += len(documents)
                rest = batch[sum(map(len, documents)) :]
        if rest or count != collection.documents:
            raise BackupError(f"its {collection.name} is not {collection.documents:,} documents")

    def _member(self, name: str) -> IO[bytes]:
        if self._archive.getinfo(name).compress_type != ZIP_DEFLATED:
            raise BackupError("its compression is not the one of a backup")  # may take gigabytes
        return self._archive.open(name)


@contextmanager
def open_backup(opened: FileIO) -> Iterator[Backup]:
    """Yield a backup, the whole file of which is checked. Raises BackupError, also OSError."""
    with _File(opened) as file:
        size = _check(file)
        with _reported_defects():
            archive = ZipFile(file)
            backup = Backup(archive, size)
        with archive:
            yield backup


@contextmanager
def new_archive(file: IO[bytes]) -> Iterator[ZipFile]:
    """Yield an archive for the members and the manifest of a backup; add the checksum at the end.

    file: open for writing, which may be a pipe.
    """
    with ZipFile(
        cast("IO[bytes]", _Checked(file)), "w", ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL
    ) as archive:
        archive.comment = _PLACEHOLDER
        yield archive


class _Checked:
    """A file that writes the checksum of what it has written in place of a placeholder.

    It cannot seek, so zipfile writes each byte once and in order.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.flush = file.flush

    def write(self, content: bytes) -> int:
        """Write bytes; the placeholder comes last, in a call of its own."""
        if content == _PLACEHOLDER:
            self._sha256.update(_PREFIX)
            content = _PREFIX + self._sha256.hexdigest().encode()
        self._sha256.update(content)
        return self._file.write(content)


def write_manifest(manifest: Manifest, archive: ZipFile) -> None:
    """Write what the backup contains into the archive."""
    archive.writestr(_MANIFEST, orjson.dumps(asdict(manifest)))


def split_documents(batch: bytes) -> Iterator[bytes]:
    """Yield the complete BSON documents at the beginning of a batch.

    Raises BackupError if what follows is the beginning of none.
    """
    start = 0
    while start + 4 <= len(batch):
        (length,) = unpack_from("<i", batch, start)
        if length not in _DOCUMENT_BYTES:
            raise BackupError(f"it has a document of {length:,} bytes")
        if start + length > len(batch):
            return
        yield batch[start : start + length]
        start += length


class _File(BufferedReader):
    """The file of a backup, of which nothing large is read at once, such as its ZIP directory."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read from the file. Raises BackupError."""
        if size is not None and size > _CHUNK_BYTES:
            raise BackupError("its directory is too large")
        return super().read(size)


@contextmanager
def _reported_defects() -> Iterator[None]:
    """Raise BackupError for what zipfile and bson raise if a file is malformed."""
    try:
        yield
    except _DEFECTS as error:
        raise BackupError("its archive is malformed") from error


def _check(file: IO[bytes]) -> int:
    """Return the size of a file. Raises BackupError unless it ends with its checksum."""
    sha256, size = hashlib.sha256(), file.seek(0, os.SEEK_END)
    rest = size - 2 * sha256.digest_size  # in hexadecimal
    file.seek(0)
    while rest > 0 and (content := file.read(min(_CHUNK_BYTES, rest))):
        sha256.update(content)
        rest -= len(content)
    if file.read(_CHUNK_BYTES) != sha256.hexdigest().encode():
        raise BackupError("it is damaged or incomplete, or not a backup: restore another one")
    return size
