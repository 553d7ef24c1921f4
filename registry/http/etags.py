"""Entity tags and preconditions (RFC 9110, sections 8.8.3 and 13)."""

import re
from hashlib import sha256

from aiohttp import hdrs, web

from registry.model.record import Record
from registry.storage.records import Versions, version_of

_DIGEST_DIGITS = 24
_VERSIONED_TAG = re.compile(rf"([0-9]{{1,18}})-[0-9a-f]{{{_DIGEST_DIGITS}}}", re.ASCII)
_TAG = re.compile(r'(W/)?"([^"]*)"')


def make_etag(body: bytes, record: Record | None = None) -> str:
    """Return the strong entity tag of a response, without quotes.

    It changes with every byte of the body, so each combination of query parameters has its own.
    record: the resource that the response represents, if it is a single one; its version, which
    `If-Match` is compared with, then precedes the digest: `3-5d41402abc4b2a76b9719d91`.
    """
    digest = sha256(body).hexdigest()[:_DIGEST_DIGITS]
    return digest if record is None else f"{version_of(record)}-{digest}"


def if_match_versions(request: web.Request) -> Versions:
    """Return the versions in `If-Match` (RFC 9110, 13.1.1); None if any version matches.

    Weak tags and tags that the service did not create match no version.
    """
    if hdrs.IF_MATCH not in request.headers or _is_any(request, hdrs.IF_MATCH):
        return None
    strong = (tag for weak, tag in _tags(request, hdrs.IF_MATCH) if not weak)
    return frozenset(int(match[1]) for match in map(_VERSIONED_TAG.fullmatch, strong) if match)


def matches_if_none_match(request: web.Request, etag: str) -> bool:
    """Return whether `If-None-Match` has the tag, so that the client need not load the response.

    Tags are compared weakly (RFC 9110, 13.1.2).
    """
    if hdrs.IF_NONE_MATCH not in request.headers:
        return False
    tags = {tag for _, tag in _tags(request, hdrs.IF_NONE_MATCH)}
    return etag in tags or _is_any(request, hdrs.IF_NONE_MATCH)


def _is_any(request: web.Request, header: str) -> bool:
    return request.headers.get(header, "").strip() == "*"


def _tags(request: web.Request, header: str) -> list[tuple[str, str]]:
    """Return each tag in the header, as (`W/` or "", opaque tag)."""
    return _TAG.findall(",".join(request.headers.getall(header, [])))
