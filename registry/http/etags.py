"""Entity tags and preconditions (RFC 9110, sections 8.8.3 and 13)."""

import re
from collections.abc import Iterable
from hashlib import sha256

from aiohttp import hdrs, web

from registry.jsonapi.changes import Versions
from registry.jsonapi.error_types import PreconditionFailed
from registry.model.record import Record, version_of
from registry.model.resource_type import ResourceType
from registry.model.stored_fields import ID

_DIGEST_DIGITS, _CHECK_DIGITS = 24, 16
_GZIP_SUFFIX = "-gzip"
_RESOURCE_TAG = re.compile(
    rf"(0|[1-9][0-9]{{0,17}})-([0-9a-f]{{{_DIGEST_DIGITS}}})-([0-9a-f]{{{_CHECK_DIGITS}}})"
    rf"(?:{_GZIP_SUFFIX})?",
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


def gzip_etag(etag: str) -> str:
    """Return the tag of a response that is compressed, from that of the same without.

    Strong tags of different content codings differ (RFC 9110, 8.8.3.3). For `If-Match`, both are
    tags of the same version of a resource.
    """
    return etag + _GZIP_SUFFIX


def _check(resource: ResourceType, id_: int, version: int, digest: str) -> str:
    text = f"{resource.type}/{id_}/{version}-{digest}"
    return sha256(text.encode()).hexdigest()[:_CHECK_DIGITS]


def matching_versions(request: web.Request, resource: ResourceType, id_: int) -> Versions:
    """Return the versions of a resource in `If-Match` (RFC 9110, 13.1.1); None if any matches.

    Tags are compared strongly and as a whole: weak tags, tags of other resources, and tags that the
    service did not create match no version.
    """
    if hdrs.IF_MATCH not in request.headers or _is_any(request, hdrs.IF_MATCH):
        return None
    return _versions(_strong_tags(request, hdrs.IF_MATCH), resource, id_)


def excluded_versions(request: web.Request, resource: ResourceType, id_: int) -> Versions:
    """Return the versions of a resource in `If-None-Match` (RFC 9110, 13.1.2); None if any matches.

    Tags are compared weakly, but otherwise as by `matching_versions`.
    """
    if _is_any(request, hdrs.IF_NONE_MATCH):
        return None
    return _versions((tag for _, tag in _tags(request, hdrs.IF_NONE_MATCH)), resource, id_)


def is_current(request: web.Request, etag: str | None) -> bool:
    """Return whether the client has a response already: `If-None-Match` is `*`, or has its tag.

    etag: None if the response exists but has no tag, as that of a whole collection: then only `*`
    matches (RFC 9110, 13.1.1 and 13.1.2). Raises PreconditionFailed unless `If-Match` is absent,
    `*`, or has the tag. Tags of `If-Match` are compared strongly, others weakly.
    """
    headers = request.headers
    if (
        hdrs.IF_MATCH in headers
        and not _is_any(request, hdrs.IF_MATCH)
        and etag not in _strong_tags(request, hdrs.IF_MATCH)
    ):
        raise PreconditionFailed
    if hdrs.IF_NONE_MATCH not in headers:
        return False
    tags = {tag for _, tag in _tags(request, hdrs.IF_NONE_MATCH)}
    return etag in tags or _is_any(request, hdrs.IF_NONE_MATCH)


def _versions(tags: Iterable[str], resource: ResourceType, id_: int) -> frozenset[int]:
    """Return the versions in those tags that the service gave for a resource."""
    parts = (match.groups() for match in map(_RESOURCE_TAG.fullmatch, tags) if match)
    return frozenset(
        int(version)
        for version, digest, check in parts
        if check == _check(resource, id_, int(version), digest)
    )


def _is_any(request: web.Request, header: str) -> bool:
    return request.headers.get(header, "").strip() == "*"


def _strong_tags(request: web.Request, header: str) -> list[str]:
    return [tag for weak, tag in _tags(request, header) if not weak]


def _tags(request: web.Request, header: str) -> list[tuple[str, str]]:
    """Return each tag in the header, as (`W/` or "", opaque tag)."""
    return _TAG.findall(",".join(request.headers.getall(header, [])))
