"""What the headers of a request say about it, beside its representation and its sender.

Its id (`X-Request-ID`, or `traceparent` of W3C Trace Context), the versions that it is for (RFC
9110, 8.8.3 and 13), `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header), and `Prefer`
(RFC 7240): to merge with what is stored, or to try a change only.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import getrandbits
from zlib import crc32

from aiohttp import hdrs, web
from multidict import istr

from registry.http.access_control import PRINCIPAL
from registry.jsonapi.changes import Versions
from registry.jsonapi.content_negotiation import first_parts
from registry.jsonapi.error_types import InvalidIdempotencyKey, PreconditionFailed
from registry.model.record import ID, Record, version_of
from registry.model.resource_type import ResourceType
from registry.protocol import (
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    MERGE,
    PREFER,
    PREFERENCE_APPLIED,
    REQUEST_ID,
    ROLL_BACK,
)
from registry.storage import IdempotencyKey

_SENT_ID, _TRACEPARENT = istr(REQUEST_ID), istr("traceparent")
"""Header names that are looked up faster than other strings."""

_ID = re.compile(r"[!-~]{1,128}")

_TRACE = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
"""Version ff is invalid, and only later versions than 00 may have further parts."""

_KEY = web.RequestKey("request_id", str)

_DIGEST_DIGITS = 24
GZIP_SUFFIX = "-gzip"
"""Ends the tag of a response that is compressed: strong tags of different content codings differ
(RFC 9110, 8.8.3.3). For `If-Match`, both are tags of the same version of a resource."""

_RESOURCE_TAG = re.compile(
    rf"(0|[1-9][0-9]{{0,17}})-([0-9a-f]{{{_DIGEST_DIGITS}}})-([0-9a-f]{{8}})"
    rf"(?:{GZIP_SUFFIX})?",
    re.ASCII,
)
_TAG = re.compile(r'(W/)?"([^"]*)"')

_STRING = r'([ !#-\[\]-~]|\\["\\]){1,255}'  # RFC 8941, 3.3.3
_PLAIN = r"[!#-+\--:<-\[\]-~]{1,255}"

PATTERN = f'^("{_STRING}"|{_PLAIN})$'
"""The valid values of the header, as a regular expression of OpenAPI."""

_VALUE = re.compile(PATTERN, re.ASCII)

_DIGEST_BYTES = 16

_PREFER = istr(PREFER)


def request_id(request: web.BaseRequest) -> str:
    """Return the id of a request: the one sent, or a new one, which is not a secret."""
    try:
        id_: str = request[_KEY]
    except KeyError:
        headers = request.headers
        is_sent = _SENT_ID in headers or _TRACEPARENT in headers
        id_ = (sent_id(headers) if is_sent else None) or getrandbits(128).to_bytes(16).hex()
        request[_KEY] = id_
    return id_


def sent_id(headers: Mapping[str, str]) -> str | None:
    """Return the valid id that a request has in `X-Request-ID`, else that of its trace, if any."""
    sent = headers.get(_SENT_ID)
    return sent if sent is not None and _ID.fullmatch(sent) else trace_id(headers)


def trace_id(headers: Mapping[str, str]) -> str | None:
    """Return the trace id in `traceparent` (W3C Trace Context, 3.2); None if it is malformed."""
    match = _TRACE.fullmatch(headers.get(_TRACEPARENT, ""))
    return match[1] if match else None


def make_etag(
    body: bytes, resource: ResourceType | None = None, record: Record | None = None
) -> str:
    """Return the strong entity tag of a response, without quotes.

    resource, record: set if the response represents a single resource. Its version then precedes
    the digest of the body, and a check follows, so that `If-Match` recognizes every tag of the
    version: `3-5d41402abc4b2a76b9719d91-2cf24dba`.
    """
    digest = sha256(body).hexdigest()[:_DIGEST_DIGITS]
    if resource is None or record is None:
        return digest
    version = version_of(record)
    return f"{version}-{digest}-{_check(resource, record[ID], version, digest)}"


def _check(resource: ResourceType, id_: int, version: int, digest: str) -> str:
    text = f"{resource.type}/{id_}/{version}-{digest}"
    return f"{crc32(text.encode()):08x}"


def preconditions(
    request: web.Request, resource: ResourceType, id_: int
) -> tuple[Versions, Versions]:
    """Return the versions of a resource that `If-Match` allows, and that `If-None-Match` excludes.

    Tags that are weak in `If-Match`, or of other resources, match no version (RFC 9110, 13.1).
    """
    allowed: Versions = None
    excluded: Versions = frozenset()
    if hdrs.IF_MATCH in request.headers:
        allowed = _versions(request, hdrs.IF_MATCH, resource, id_)
    if hdrs.IF_NONE_MATCH in request.headers:
        excluded = _versions(request, hdrs.IF_NONE_MATCH, resource, id_)
    return allowed, excluded


def _versions(request: web.Request, header: str, resource: ResourceType, id_: int) -> Versions:
    """Return the versions whose tags a header has; None if it is `*`."""
    tags = _tags(request, header)
    if tags is None:
        return None
    parts = (match.groups() for match in map(_RESOURCE_TAG.fullmatch, tags) if match)
    return frozenset(
        int(version)
        for version, digest, check in parts
        if check == _check(resource, id_, int(version), digest)
    )


def is_current(request: web.Request, etag: str | None) -> bool:
    """Return whether the client has a response already, by `If-None-Match`.

    etag: None if it has none, as that of a whole collection: then only `*` matches (RFC 9110,
    13.1). Raises PreconditionFailed if `If-Match` does not match.
    """
    headers = request.headers
    if hdrs.IF_MATCH in headers:
        tags = _tags(request, hdrs.IF_MATCH)
        if tags is not None and etag not in tags:
            raise PreconditionFailed
    if hdrs.IF_NONE_MATCH not in headers:
        return False
    tags = _tags(request, hdrs.IF_NONE_MATCH)
    return tags is None or etag in tags


def _tags(request: web.Request, header: str) -> list[str] | None:
    """Return the opaque tags in a header, of `If-Match` only the strong ones; None if it is `*`."""
    values = request.headers.getall(header, [])
    if values and values[0].strip() == "*":
        return None
    tags = _TAG.findall(",".join(values))
    return [tag for weak, tag in tags if not (weak and header == hdrs.IF_MATCH)]


@dataclass(frozen=True, slots=True)
class Preferences:
    """The preferences to update what has a unique value, and to undo everything at the end."""

    merges: bool = False
    rolls_back: bool = False

    def acknowledge(self, *, is_replayed: bool) -> dict[str, str]:
        """Return the headers that tell what was applied, and whether the result was stored."""
        headers = {IDEMPOTENCY_REPLAYED: "true"} if is_replayed else {}
        if self.merges or self.rolls_back:
            applied = [MERGE] * self.merges + [ROLL_BACK] * self.rolls_back
            headers[PREFERENCE_APPLIED] = ", ".join(applied)
        return headers


NO_PREFERENCES = Preferences()


def read_preferences(request: web.BaseRequest) -> Preferences:
    """Return the preferences of a request; the first value counts, malformed ones are ignored."""
    if _PREFER not in request.headers:
        return NO_PREFERENCES
    sent: dict[str, str] = {}
    for preference in first_parts(request.headers.getall(_PREFER)):
        name, _, value = (half.strip() for half in preference.partition("="))
        if value.startswith('"'):
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        sent.setdefault(name.lower(), value)
    named = [f"{name}={value}" for name, value in sent.items()]
    return Preferences(MERGE in named, ROLL_BACK in named)


def idempotency_key(
    request: web.Request, body: bytes, preferences: Preferences
) -> IdempotencyKey | None:
    """Return the key of a POST request; None without one, and for what is rolled back.

    Requests that need no authentication count as those of one client. The fingerprint covers path,
    query string, preferences and body. Raises InvalidIdempotencyKey.
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
        raise InvalidIdempotencyKey(
            f"`{IDEMPOTENCY_KEY}` must be sent once, with 1 to 255 ASCII characters: a string in "
            "double quotes, or a text without spaces, quotes, backslashes, commas and semicolons."
        )
    value = values[0].removeprefix('"').removesuffix('"')
    return re.sub(r"\\(.)", r"\1", value) if "\\" in value else value


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_DIGEST_BYTES]
