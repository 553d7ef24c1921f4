"""Entity tags: strong validators of answers, which tell the version of the resource as well."""

from __future__ import annotations

import re
from hashlib import sha256

from aiohttp import hdrs, web

from registry.model.record import Record
from registry.storage.records import Versions, version_of

_DIGEST_DIGITS = 24
_VERSIONED = re.compile(rf"([0-9]{{1,18}})-[0-9a-f]{{{_DIGEST_DIGITS}}}", re.ASCII)
_TAG = re.compile(r'(W/)?"([^"]*)"')
_ANY = "*"


def make_etag(body: bytes, record: Record | None = None) -> str:
    """Return the tag of an answer; record: the resource that it represents, if it is one alone.

    It changes with every byte of the answer, so that each choice of parameters has another; what
    `If-Match` needs of it is the version at its beginning.
    """
    digest = sha256(body).hexdigest()[:_DIGEST_DIGITS]
    return digest if record is None else f"{version_of(record)}-{digest}"


def if_match_versions(request: web.Request) -> Versions:
    """Return the versions that `If-Match` names (RFC 9110, 13.1.1); None if any will do.

    A tag that is weak, or none of this service, names no version.
    """
    if hdrs.IF_MATCH not in request.headers or _is_any(request, hdrs.IF_MATCH):
        return None
    strong = (value for weak, value in _tags(request, hdrs.IF_MATCH) if not weak)
    return frozenset(int(found[1]) for found in map(_VERSIONED.fullmatch, strong) if found)


def is_not_modified(request: web.Request, tag: str) -> bool:
    """Whether the client says by `If-None-Match` that it has this answer (RFC 9110, 13.1.2)."""
    if hdrs.IF_NONE_MATCH not in request.headers:
        return False
    known = {value for _, value in _tags(request, hdrs.IF_NONE_MATCH)}
    return tag in known or _is_any(request, hdrs.IF_NONE_MATCH)


def _is_any(request: web.Request, header: str) -> bool:
    return request.headers.get(header, "").strip() == _ANY


def _tags(request: web.Request, header: str) -> list[tuple[str, str]]:
    return _TAG.findall(",".join(request.headers.getall(header, [])))
