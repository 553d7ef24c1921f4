"""Absolute URL of a request, for `links.self` and the links between pages."""

import re
from urllib.parse import quote

from aiohttp import web

from registry.jsonapi.errors import MalformedRequest

_HOST = re.compile(r"([\w.-]+|\[[\da-fA-F:.]+\])(:\d{1,5})?", re.ASCII)
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SAFE = "/?:@!$&'()*+,;=-._~%"


def absolute_url(request: web.Request, public_url: str | None) -> str:
    """Return the URL as requested, with unsafe characters percent-encoded.

    public_url: the base URL under which clients reach the service; None for the `Host` of the
    request. Raises MalformedRequest if that is not valid (section 4.7 of the service description).
    """
    target = request.raw_path
    if not target.startswith("/"):  # absolute-form (RFC 9112, 3.2.2)
        target = str(request.rel_url)
    encoded = quote(_STRAY_PERCENT.sub("%25", target), _SAFE, errors="surrogateescape")
    return (public_url or _origin(request)).rstrip("/") + encoded


def _origin(request: web.Request) -> str:
    if not _HOST.fullmatch(request.host):
        raise MalformedRequest("The header `Host` is not a valid host name.")
    return f"{request.scheme}://{request.host}"
