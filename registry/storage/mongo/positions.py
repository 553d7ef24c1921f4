"""Positions: points in time of one database, as opaque strings that clients keep."""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from hashlib import sha256

from bson.codec_options import CodecOptions
from bson.timestamp import Timestamp

from registry.jsonapi.error_objects import quoted
from registry.storage.errors import InvalidPosition
from registry.storage.mongo.mongo_client import Database

_FORMAT = struct.Struct(">BII4s")
"""The version of the format, the seconds and the counter of a time, and the database."""

_VERSION, _CHECK_BYTES = 1, 5

_LENGTH = (_FORMAT.size + _CHECK_BYTES) * 4 // 3
"""Characters of a position: whole groups of three bytes, which base64 writes in one way only."""


class Positions:
    """The positions of one database.

    A position is a cluster time, so it lies between two transactions. database: a digest of what no
    other database has.
    """

    def __init__(self, database: bytes) -> None:
        self._database = database

    @classmethod
    async def of(cls, database: Database, collection: str) -> "Positions":
        """Return those of a database, known by a collection that it keeps. Raises PyMongoError."""
        plain = database.with_options(CodecOptions())  # by default, a UUID is read as bytes
        cursor = await plain.list_collections(filter={"name": collection})
        (found,) = await cursor.to_list(None)
        identity = bytes(found["info"]["uuid"]) + database.name.encode()
        return cls(sha256(identity).digest()[:4])

    def encode(self, time: Timestamp) -> str:
        """Return the position after all changes up to a time."""
        return _encode(time, self._database)

    def decode(self, position: str) -> Timestamp:
        """Return the time of a position. Raises InvalidPosition."""
        try:
            data = urlsafe_b64decode(position) if len(position) == _LENGTH else b""
        except ValueError:
            data = b""
        content = data[: _FORMAT.size]
        if not data or data[_FORMAT.size :] != _check(content):
            raise InvalidPosition(f"{quoted(position)} is not a complete position.")
        version, seconds, counter, database = _FORMAT.unpack(content)
        if version != _VERSION or database != self._database:
            raise InvalidPosition(f"{quoted(position)} is a position of another database.")
        return Timestamp(seconds, counter)


@lru_cache(maxsize=64)  # reads share their times
def _encode(time: Timestamp, database: bytes) -> str:
    content = _FORMAT.pack(_VERSION, time.time, time.inc, database)
    return urlsafe_b64encode(content + _check(content)).decode()


def _check(content: bytes) -> bytes:
    return sha256(content).digest()[:_CHECK_BYTES]
