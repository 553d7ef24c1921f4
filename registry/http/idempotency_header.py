"""The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header)."""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TypeVar

from aiohttp import hdrs, web

from registry.http.access_control import PRINCIPAL
from registry.http.preferences import Preferences
from registry.jsonapi.error_types import MAX_KEY_LENGTH, InvalidIdempotencyKey
from registry.protocol import IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, MERGE
from registry.storage import IdempotencyKey

_STRING = rf'([ !#-\[\]-~]|\\["\\]){{1,{MAX_KEY_LENGTH}}}'  # RFC 8941, 3.3.3
_PLAIN = rf"[!#-+\--:<-\[\]-~]{{1,{MAX_KEY_LENGTH}}}"

PATTERN = f'^("{_STRING}"|{_PLAIN})$'
"""The valid values of the header, as a regular expression of OpenAPI."""

_VALUE = re.compile(PATTERN, re.ASCII)

_DIGEST_BYTES = 16

_Response = TypeVar("_Response", bound=web.StreamResponse)


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


def with_replay_header(response: _Response, *, is_replayed: bool) -> _Response:
    """Return the response, with the header that says so if it has a stored result."""
    if is_replayed:
        response.headers[IDEMPOTENCY_REPLAYED] = "true"
    return response


def parse_key(values: Sequence[str]) -> str:
    """Return the key in the values of all headers of this name. Raises InvalidIdempotencyKey."""
    if len(values) > 1 or not _VALUE.fullmatch(values[0]):
        raise InvalidIdempotencyKey
    value = values[0].removeprefix('"').removesuffix('"')
    return re.sub(r"\\(.)", r"\1", value) if "\\" in value else value


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]
