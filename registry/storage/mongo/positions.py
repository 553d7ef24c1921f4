"""Positions in the change feed: between two commits, and opaque to clients.

- A position is a cluster time (of a document) or a resume token (of the feed).
- Nothing is read from a token; tokens are compared as texts, as MongoDB documents it.
- A database refuses the positions of any other one.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import TypeAlias

from bson.codec_options import CodecOptions
from bson.timestamp import Timestamp

from registry.jsonapi.error_objects import quoted
from registry.jsonapi.error_types import InvalidPosition
from registry.storage.mongo.mongo_client import Database

FeedPosition: TypeAlias = Timestamp | str
"""A place between two commits: the cluster time, or the resume token, of the one before it."""

_TIME = struct.Struct(">II")
"""The seconds and the counter of a cluster time."""

_OF_TIME, _OF_TOKEN = 1, 2
"""The first byte of a position: which kind it is."""

_DATABASE_BYTES, _CHECKSUM_BYTES = 4, 5

_MAX_LENGTH = 4_096
"""Characters of a position; a token has some 50 bytes."""


class Positions:
    """The positions of one database, as texts that only this service reads.

    database: a digest of what no other database has.
    """

    def __init__(self, database: bytes) -> None:
        self._database = database
        self._last: tuple[FeedPosition | None, str] = (None, "")

    @classmethod
    async def of(cls, database: Database, collection: str) -> "Positions":
        """Return those of a database, known by a collection that it keeps. Raises PyMongoError."""
        plain = database.with_options(CodecOptions())  # by default, a UUID is read as bytes
        cursor = await plain.list_collections(filter={"name": collection})
        (found,) = await cursor.to_list(None)
        identity = bytes(found["info"]["uuid"]) + database.name.encode()
        return cls(sha256(identity).digest()[:_DATABASE_BYTES])

    def encode(self, position: FeedPosition) -> str:
        """Return the text of a position."""
        last, text = self._last  # mostly the same object, as reads of a batch share their time
        if position is not last:
            text = self._encoded(position)
            self._last = position, text
        return text

    def _encoded(self, position: FeedPosition) -> str:
        if isinstance(position, Timestamp):
            value = bytes([_OF_TIME]) + _TIME.pack(position.time, position.inc)
        else:
            value = bytes([_OF_TOKEN]) + bytes.fromhex(position)
        content = value + self._database
        return urlsafe_b64encode(content + _checksum(content)).decode().rstrip("=")

    def decode(self, text: str) -> FeedPosition:
        """Return the position of a text. Raises InvalidPosition."""
        try:
            padding = "=" * (-len(text) % 4)
            data = urlsafe_b64decode(text + padding) if len(text) <= _MAX_LENGTH else b""
        except ValueError:
            data = b""
        content = data[:-_CHECKSUM_BYTES]
        if not content or data[-_CHECKSUM_BYTES:] != _checksum(content):
            raise InvalidPosition(f"{quoted(text)} is not a complete position.")
        kind, value = content[0], content[1:-_DATABASE_BYTES]
        if kind not in {_OF_TIME, _OF_TOKEN} or not content.endswith(self._database):
            raise InvalidPosition(f"{quoted(text)} is a position of another database.")
        return Timestamp(*_TIME.unpack(value)) if kind == _OF_TIME else value.hex().upper()


def _checksum(content: bytes) -> bytes:
    return sha256(content).digest()[:_CHECKSUM_BYTES]
