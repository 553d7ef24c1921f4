"""The headers `Idempotency-Key` and `Prefer` of writes.

The first one is that of draft-ietf-httpapi-idempotency-key-header, the second that of RFC 7240: to
merge with what is stored, or to try a change only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from aiohttp import hdrs, web
from multidict import istr

from registry.http.access_control import PRINCIPAL
from registry.jsonapi.error_types import MAX_KEY_LENGTH, InvalidIdempotencyKey
from registry.protocol import (
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    MERGE,
    PREFER,
    PREFERENCE_APPLIED,
    ROLL_BACK,
)
from registry.storage import IdempotencyKey

_STRING = rf'([ !#-\[\]-~]|\\["\\]){{1,{MAX_KEY_LENGTH}}}'  # RFC 8941, 3.3.3
_PLAIN = rf"[!#-+\--:<-\[\]-~]{{1,{MAX_KEY_LENGTH}}}"

PATTERN = f'^("{_STRING}"|{_PLAIN})$'
"""The valid values of the header, as a regular expression of OpenAPI."""

_VALUE = re.compile(PATTERN, re.ASCII)

_DIGEST_BYTES = 16

_PREFER = istr(PREFER)

_QUOTED = r'"(?:[^"\\]|\\.)*+'
# Up to a comma that is not quoted; a quote that does not end reaches to the end.
_ELEMENT = re.compile(rf'(?:{_QUOTED}\\?"?|[^",])++')
_PREFERENCE = re.compile(rf'\s*+([^\s=;"]++)\s*+(?:=\s*+({_QUOTED}"|[^\s;"]*+)\s*+)?+(?:;|\Z)')
"""A preference before its parameters, none of which is supported."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """The supported preferences of a request.

    merges: whether to update a resource that has the value of a unique attribute. rolls_back:
    whether to undo everything in the end.
    """

    merges: bool = False
    rolls_back: bool = False

    def acknowledge(self, *, is_replayed: bool) -> dict[str, str]:
        """Return the headers that tell what was applied, and whether the result was stored."""
        named = {MERGE: self.merges, ROLL_BACK: self.rolls_back}
        applied = ", ".join(text for text, is_applied in named.items() if is_applied)
        headers = {PREFERENCE_APPLIED: applied, IDEMPOTENCY_REPLAYED: "true" if is_replayed else ""}
        return {name: value for name, value in headers.items() if value}


def read_preferences(request: web.BaseRequest) -> Preferences:
    """Return the preferences of a request.

    Others are ignored, and so is what is malformed. Of several values, the first one counts.
    """
    if _PREFER not in request.headers:
        return Preferences()
    sent: dict[str, str] = {}
    for element in _ELEMENT.findall(",".join(request.headers.getall(_PREFER))):
        if match := _PREFERENCE.match(element):
            value = match[2] or ""
            if value.startswith('"'):
                value = re.sub(r"\\(.)", r"\1", value[1:-1])
            sent.setdefault(match[1].lower(), value)
    named = [f"{name}={value}" for name, value in sent.items()]
    return Preferences(MERGE in named, ROLL_BACK in named)


def idempotency_key(
    request: web.Request, body: bytes, preferences: Preferences
) -> IdempotencyKey | None:
    """Return the key of a POST request, None if it has none.

    Other methods are idempotent without a key. Clients do not share keys; requests that need no
    authentication count as those of one client. The fingerprint covers path, query string,
    preferences and body. Nothing is recorded of what is rolled back. Raises InvalidIdempotencyKey.
    """
    values = request.headers.getall(IDEMPOTENCY_KEY, ())
    if not values or request.method != hdrs.METH_POST:
        return None
    principal = request.get(PRINCIPAL)
    client = None if principal is None else (principal.issuer, principal.name)
    # The client is quoted, so that its end is known.
    id_ = _digest(f"{client!a} {parse_key(values)}".encode())
    if preferences.rolls_back:
        return None
    target = f"{request.raw_path}\n{MERGE if preferences.merges else ''}"
    return IdempotencyKey(id_, _digest(target.encode("utf-8", "surrogateescape") + body))


def parse_key(values: Sequence[str]) -> str:
    """Return the key in the values of all headers of this name. Raises InvalidIdempotencyKey."""
    if len(values) > 1 or not _VALUE.fullmatch(values[0]):
        raise InvalidIdempotencyKey
    value = values[0].removeprefix('"').removesuffix('"')
    return re.sub(r"\\(.)", r"\1", value) if "\\" in value else value


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]
