"""The access tokens of a database: their digests, names and scopes, never the tokens themselves."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from registry.storage.client import Database
from registry.storage.errors import TokenNameTaken, TokenNotFound
from registry.storage.records import Stage

COLLECTION = "tokens"

_MILLISECONDS = 10_000
"""The time limit of a query."""

_UNREVOKED: Stage = {"revoked": None}


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
        cursor = self._collection.find({}, {"_id": False}, max_time_ms=_MILLISECONDS)
        documents = await cursor.sort([("created", 1), ("name", 1)]).to_list(None)
        return [Token(**{**each, "scopes": frozenset(each["scopes"])}) for each in documents]

    async def revoke(self, name: str) -> None:
        """Revoke the token of this name. Raises TokenNotFound if there is none to revoke."""
        result = await self._collection.update_one(
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
