"""The access tokens of a database: their digests, names and scopes, and batched lookups of them."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic
from typing import Any, Self

from pymongo.errors import DuplicateKeyError, PyMongoError

from registry.access.principal import Principal
from registry.capacity import TOKENS, Capacity
from registry.jsonapi.error_types import InvalidToken
from registry.model.record import Record
from registry.storage.bulkheads import Bulkheads
from registry.storage.errors import translated_errors
from registry.storage.mongo.batching import Batcher
from registry.storage.mongo.mongo_client import Database
from registry.storage.mongo.read_commands import ReadCommands, find_command
from registry.storage.records import Stage

COLLECTION = "tokens"

_MILLISECONDS = 10_000
"""The time limit of a command."""

_UNREVOKED: Stage = {"revoked": None}


class TokenNameTaken(Exception):
    """An access token that is not revoked has this name already."""


class TokenNotFound(Exception):
    """No access token of this name can be revoked."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of an access token.

    expires: None if it never does. last_used: precise to an hour. revoked: when, if it was.
    """

    name: str
    scopes: frozenset[str]
    created: datetime
    expires: datetime | None = None
    last_used: datetime | None = None
    revoked: datetime | None = None

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return a stored token."""
        times: dict[str, Any] = {name: record.get(name) for name in _TIMES}
        return cls(record["name"], frozenset(record["scopes"]), **times)

    @property
    def state(self) -> str:
        """Whether it is `valid`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        has_expired = self.expires is not None and self.expires <= datetime.now(UTC)
        return "expired" if has_expired else "valid"


_TIMES = ("created", "expires", "last_used", "revoked")

PROJECTION = dict.fromkeys(("name", "scopes", *_TIMES), True)
"""The fields of a stored token, beside its `_id`."""


class Tokens:
    """Creates, lists and revokes access tokens. The methods raise PyMongoError.

    The `_id` of a stored token is its SHA-256 digest. Revoked tokens stay, for the record.
    """

    def __init__(self, database: Database) -> None:
        self._collection = database[COLLECTION]

    async def create(self, token: Token, digest: bytes) -> None:
        """Store a new token. Raises TokenNameTaken if one that is not revoked has its name."""
        await self._collection.create_index("name", unique=True, partialFilterExpression=_UNREVOKED)
        document = {name: getattr(token, name) for name in Token.__slots__}
        try:
            await self._collection.insert_one(
                {"_id": digest, **document, "scopes": sorted(token.scopes)}
            )
        except DuplicateKeyError as error:
            raise TokenNameTaken(token.name) from error

    async def find_all(self) -> list[Token]:
        """Return all tokens, the oldest first."""
        cursor = self._collection.find({}, PROJECTION, max_time_ms=_MILLISECONDS)
        return [Token.of(record) async for record in cursor.sort([("created", 1), ("name", 1)])]

    async def revoke(self, name: str) -> None:
        """Revoke the token of this name. Raises TokenNotFound if there is none to revoke."""
        # A restored collection has no index yet that keeps names unique.
        result = await self._collection.update_many(
            {"name": name, **_UNREVOKED}, {"$set": {"revoked": datetime.now(UTC)}}
        )
        if not result.matched_count:
            raise TokenNotFound(name)

    async def has_any(self) -> bool:
        """Whether there is a token that has neither expired nor been revoked."""
        unexpired: list[dict[str, Any]] = [
            {"expires": None},
            {"expires": {"$gt": datetime.now(UTC)}},
        ]
        query = {**_UNREVOKED, "$or": unexpired}
        found = await self._collection.find_one(query, {"_id": True}, max_time_ms=_MILLISECONDS)
        return found is not None


_USE_PRECISION = timedelta(hours=1)
"""How old `last_used` becomes before it is written again."""


class TokenLookups:
    """The principals of access tokens, by digest.

    capacity: the limit of small requests applies, counted separately, so that requests with unknown
    tokens do not take the places of others.
    """

    def __init__(self, database: Database, capacity: Capacity) -> None:
        self._database, self._capacity = database, capacity
        self._commands = ReadCommands(database)
        self._bulkhead = Bulkheads.of(capacity).small_requests
        self._batcher = Batcher(self._find_batch, name="tokens", limits=TOKENS)
        self._known: dict[bytes, tuple[Principal, float]] = {}  # until when, by `monotonic`
        self._update: asyncio.Task[None] | None = None

    def recall(self, digest: bytes) -> Principal | None:
        """Return the principal of a token that was found less than a second ago, else None."""
        # Not in constant time, but nobody can choose the digest of a guess.
        principal, valid_until = self._known.get(digest, (None, 0.0))
        return principal if monotonic() < valid_until else None

    async def find(self, digest: bytes) -> Principal:
        """Return the principal of a token, by a lookup that is sent after the call.

        Raises InvalidToken if it is unknown, expired or revoked; else Unavailable or Overloaded.
        """
        async with self._bulkhead:
            return await self._batcher.load(digest)

    async def close(self) -> None:
        """Wait for what was begun in the background."""
        await self._batcher.close()
        if self._update:
            await asyncio.wait([self._update])

    async def _find_batch(self, digests: Sequence[bytes]) -> list[Principal | InvalidToken]:
        sent, now = monotonic(), datetime.now(UTC)
        query = {"_id": {"$in": list(set(digests))}}
        with translated_errors():
            found = await self._commands.run(find_command(COLLECTION, query, PROJECTION))
        if len(self._known) > self._capacity.known_tokens:
            self._known.clear()
        records = {record["_id"]: record for record in found.records}
        for digest in digests:
            self._known.pop(digest, None)
        results: list[Principal | InvalidToken] = []
        for digest in digests:
            try:
                principal, expires = _validated(records.get(digest), now)
            except InvalidToken as error:
                results.append(error)
            else:
                seconds = min(expires, self._capacity.token_seconds)
                self._known[digest] = principal, sent + seconds
                results.append(principal)
        self._note_use([record for digest, record in records.items() if digest in self._known], now)
        return results

    def _note_use(self, records: Sequence[Record], now: datetime) -> None:
        """Write when valid tokens were used, in the background and at most hourly."""
        before = now - _USE_PRECISION
        used = [
            record["_id"] for record in records if (record.get("last_used") or before) <= before
        ]
        if used and (self._update is None or self._update.done()):
            self._update = asyncio.create_task(self._write_use(used, now))

    async def _write_use(self, digests: Sequence[bytes], now: datetime) -> None:
        update = {"q": {"_id": {"$in": digests}}, "u": {"$max": {"last_used": now}}, "multi": True}
        # A failure delays it until the next lookup.
        with suppress(PyMongoError):
            await self._database.command(
                {"update": COLLECTION, "updates": [update], "maxTimeMS": _MILLISECONDS}
            )


def _validated(record: Record | None, now: datetime) -> tuple[Principal, float]:
    """Return the principal of a stored token, and the seconds until it expires, perhaps never.

    Raises InvalidToken if there is no such token, or if it is not valid any more.
    """
    if record is None:
        raise InvalidToken("The access token is unknown.")
    token = Token.of(record)
    if token.revoked is not None:
        raise InvalidToken("The access token was revoked.")
    if token.expires is not None and token.expires <= now:
        raise InvalidToken("The access token has expired.")
    seconds = inf if token.expires is None else (token.expires - now).total_seconds()
    return Principal(token.name, token.scopes), seconds
