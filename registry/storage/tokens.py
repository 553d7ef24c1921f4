"""The access tokens of a database: their digests, names and scopes, never the tokens themselves."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from pymongo.errors import DuplicateKeyError

from registry.access.token_form import check_name
from registry.model.record import Record
from registry.storage.errors import TokenNameTaken, TokenNotFound
from registry.storage.mongo.mongo_client import Database
from registry.storage.records import Stage

COLLECTION = "tokens"

_MILLISECONDS = 10_000
"""The time limit of a query."""

_UNREVOKED: Stage = {"revoked": None}


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of an access token.

    created: None if that is not known. expires: None if it never does. last_used: precise to an
    hour. revoked: when, if it was.
    """

    name: str
    scopes: frozenset[str]
    created: datetime | None
    expires: datetime | None = None
    last_used: datetime | None = None
    revoked: datetime | None = None

    @classmethod
    def parse(cls, record: Record) -> Self:
        """Return a stored token. Raises ValueError if it is malformed."""
        times = {each: record.get(each) for each in _TIMES}
        if not all(isinstance(time, datetime | None) for time in times.values()):
            raise ValueError("a time is not one that Python can represent")
        match record:
            case {"name": str(name), "scopes": list(scopes)} if all(map(_is_text, scopes)):
                return cls(check_name(name), frozenset(scopes), **times)
        raise ValueError("the name is not a text, or the scopes are not texts")

    @property
    def state(self) -> str:
        """Whether it is `valid`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        has_expired = self.expires is not None and self.expires <= datetime.now(UTC)
        return "expired" if has_expired else "valid"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


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

    async def find_all(self) -> tuple[list[Token], int]:
        """Return all tokens, the oldest first, and the number of those that are malformed."""
        cursor = self._collection.find({}, PROJECTION, max_time_ms=_MILLISECONDS)
        tokens, malformed = list[Token](), 0
        async for record in cursor.sort([("created", 1), ("name", 1)]):
            try:
                tokens.append(Token.parse(record))
            except ValueError:
                malformed += 1
        return tokens, malformed

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
