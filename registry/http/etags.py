"""Entity tags and preconditions (RFC 9110, sections 8.8.3 and 13)."""

import re
from hashlib import sha256

from aiohttp import hdrs, web

from registry.jsonapi.changes import Versions
from registry.jsonapi.error_types import PreconditionFailed
from registry.model.record import ID, Record, version_of
from registry.model.resource_type import ResourceType

_DIGEST_DIGITS, _CHECK_DIGITS = 24, 16
GZIP_SUFFIX = "-gzip"
"""Ends the tag of a response that is compressed: strong tags of different content codings differ
(RFC 9110, 8.8.3.3). For `If-Match`, both are tags of the same version of a resource."""

_RESOURCE_TAG = re.compile(
    rf"(0|[1-9][0-9]{{0,17}})-([0-9a-f]{{{_DIGEST_DIGITS}}})-([0-9a-f]{{{_CHECK_DIGITS}}})"
    rf"(?:{GZIP_SUFFIX})?",
    re.ASCII,
)
_TAG = re.compile(r'(W/)?"([^"]*)"')


def make_etag(
    body: bytes, resource: ResourceType | None = None, record: Record | None = None
) -> str:
    """Return the strong entity tag of a response, without quotes.

    It changes with every byte of the body, so each combination of query parameters has its own.
    resource, record: what the response represents, if it is a single resource. The digest then
    follows its version, and precedes a check of type, id, version and digest, by which `If-Match`
    recognizes all tags of one version: `3-5d41402abc4b2a76b9719d91-2cf24dba5fb0a30e`.
    """
    digest = sha256(body).hexdigest()[:_DIGEST_DIGITS]
    if resource is None or record is None:
        return digest
    version = version_of(record)
    return f"{version}-{digest}-{_check(resource, record[ID], version, digest)}"


def _check(resource: ResourceType, id_: int, version: int, digest: str) -> str:
    text = f"{resource.type}/{id_}/{version}-{digest}"
    return sha256(text.encode()).hexdigest()[:_CHECK_DIGITS]


def preconditions(
    request: web.Request, resource: ResourceType, id_: int
) -> tuple[Versions, Versions]:
    """Return the versions of a resource that `If-Match` allows, and that `If-None-Match` excludes.

    Tags of `If-Match` are compared strongly, so that weak ones match no version (RFC 9110, 13.1).
    Neither do tags of other resources, nor those that the service did not create.
    """
    is_restricted = hdrs.IF_MATCH in request.headers
    allowed = _versions(request, hdrs.IF_MATCH, resource, id_) if is_restricted else None
    return allowed, _versions(request, hdrs.IF_NONE_MATCH, resource, id_)


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
    """Return whether the client has a response already: `If-None-Match` is `*`, or has its tag.

    etag: None if the response exists but has no tag, as that of a whole collection: then only `*`
    matches (RFC 9110, 13.1.1 and 13.1.2). Raises PreconditionFailed unless `If-Match` is absent,
    `*`, or has the tag. Tags of `If-Match` are compared strongly, others weakly.
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
