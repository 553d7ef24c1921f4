"""Principals, the scopes that say what they may do, and the form of access tokens.

A token is `reg_`, 43 random letters and digits, and 6 of their checksum. The prefix lets secret
scanners find it, and the checksum rejects most false tokens without a lookup.
"""

import re
import secrets
import string
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from zlib import crc32

from registry.jsonapi.error_types import InvalidToken
from registry.model.resource_type import ResourceType

PREFIX = "reg_"

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_LENGTH = 43
"""Base-62 digits of more than 256 bits."""

_CHECKSUM_LENGTH = 6
"""Base-62 digits of a CRC-32."""

_TOKEN = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}")
_SECRET = re.compile(r"reg(?:_|%5F)[0-9A-Z]+|(access(?:_|%5F)token=)[^&\s]+", re.IGNORECASE)
"""A token, or the parameter for one, also percent-encoded."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MAX_QUOTED = 80
"""How many characters of an invalid name its error message has."""


class Action(Enum):
    """What a scope allows; writing includes reading."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request.

    name: that of its access token, or the subject of its JWT. scopes: `read` and `write` for all
    types, such as `persons:read` for one (RFC 6749, 3.3). issuer: of its JWT; None for an access
    token.
    """

    name: str
    scopes: frozenset[str]
    issuer: str | None = None

    @property
    def id(self) -> str:
        """The name that no other principal has: neither names of tokens nor issuers contain `#`."""
        return self.name if self.issuer is None else f"{self.issuer}#{self.name}"

    def has_one_of(self, scopes: Iterable[str]) -> bool:
        """Whether the principal has at least one of the scopes."""
        return not self.scopes.isdisjoint(scopes)


@lru_cache(maxsize=128)  # as it would take most of the time of authorization
def sufficient_scopes(action: Action, resource: ResourceType | None) -> tuple[str, ...]:
    """Return the scopes that allow an action, the narrowest first. resource: None for all types."""
    actions = (Action.WRITE,) if action is Action.WRITE else (Action.READ, Action.WRITE)
    of_type = [f"{resource.collection}:{action.value}" for action in actions] if resource else []
    return (*of_type, *(action.value for action in actions))


def known_scopes(resources: Iterable[ResourceType]) -> frozenset[str]:
    """Return every scope that allows something on one of the types."""
    return frozenset(
        scope
        for resource in resources
        for action in Action
        for scope in sufficient_scopes(action, resource)
    )


def new_token() -> str:
    """Return the text of a new random token."""
    text = "".join(secrets.choice(_DIGITS) for _ in range(_RANDOM_LENGTH))
    return f"{PREFIX}{text}{_checksum(text)}"


def check_form(text: str) -> None:
    """Raise InvalidToken if no token can have this text, because its form or checksum is wrong."""
    random = text[len(PREFIX) : -_CHECKSUM_LENGTH]
    if not _TOKEN.fullmatch(text) or text[-_CHECKSUM_LENGTH:] != _checksum(random):
        raise InvalidToken("The access token is malformed.")


def digest_of(text: str) -> bytes:
    """Return the SHA-256 digest of a token, or of any text of a header."""
    return sha256(text.encode(errors="surrogateescape")).digest()


def redact(text: str) -> str:
    """Return a text, such as a URL for the log, in which three dots replace each token."""
    return _SECRET.sub(r"\1...", text)


def check_name(name: str) -> str:
    """Return the name of a token. Raises ValueError if it is not valid."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:_MAX_QUOTED]!r} is not a valid name: use 1 to 64 letters, digits and . _ -, "
            "beginning with a letter or digit"
        )
    return name


def check_scopes(scopes: Iterable[str], resources: Iterable[ResourceType]) -> frozenset[str]:
    """Return the scopes. Raises ValueError for one of neither all types nor any of these."""
    valid, checked = known_scopes(resources), frozenset(scopes)
    available = sorted(valid, key=lambda scope: (":" in scope, scope))  # those of all types first
    for scope in sorted(checked - valid):
        raise ValueError(f"{scope!r} is not a scope; available: {', '.join(available)}")
    return checked


def _checksum(text: str) -> str:
    number, digits = crc32(text.encode("utf-8", "surrogateescape")), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_DIGITS))
        digits += _DIGITS[digit]
    return digits
