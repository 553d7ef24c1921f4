"""The text form of access tokens, their digests, and the names and scopes they are stored with.

A token is `reg_`, 43 random letters and digits, and 6 of their checksum. The prefix lets secret
scanners find it, and the checksum rejects most false tokens without a lookup.
"""

import re
import secrets
import string
from collections.abc import Iterable
from hashlib import sha256
from zlib import crc32

from registry.access.principal import InvalidToken, known_scopes
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
    """Return the SHA-256 digest of a token, which is stored instead of the token.

    text: may be any text of a header, also one that was not valid UTF-8.
    """
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
    """Return the scopes. Raises ValueError for one that is not of all types or of one of these."""
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
