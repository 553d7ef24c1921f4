"""Files of pages, and other contents that never change while the service runs."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import hdrs, web

from registry.http.request_headers import make_etag
from registry.http.sending import GZIP, compresses, gzipped

_DIRECTIVES = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


def content_security_policy(**hashes: str) -> dict[str, str]:
    """Return the header that keeps other hosts out of a page, and the page out of their frames.

    hashes: what to allow beside files of this host: `script="'sha256-...'"` for an inline script.
    """
    directives = dict(_DIRECTIVES)
    for kind, sources in hashes.items():
        directives[f"{kind}-src"] += f" {sources}"
    return {"Content-Security-Policy": "; ".join(map(" ".join, directives.items()))}


POLICY = content_security_policy()
"""The header for pages without inline scripts and styles, and for their files."""


@dataclass(frozen=True, slots=True)
class File:
    """A content with its media type and the headers to send with it."""

    content: bytes
    media_type: str
    headers: Mapping[str, str]


class StaticFiles:
    """Files by name. Each is compressed once, as the largest takes 60 ms and needs no token."""

    def __init__(self) -> None:
        self._files: dict[str, File] = {}
        self._bodies: dict[tuple[str, bool], tuple[bytes, str]] = {}  # and their entity tags

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def add(self, name: str, file: File) -> None:
        """Add a file under a new name."""
        self._files[name] = file

    async def respond(self, request: web.Request, name: str) -> web.Response:
        """Return the response with a file. Raises HTTPNotFound for an unknown name."""
        if (file := self._files.get(name)) is None:
            raise web.HTTPNotFound(headers=POLICY)
        is_compressed = compresses(request, len(file.content))
        if (key := (name, is_compressed)) not in self._bodies:
            body = file.content
            if is_compressed:
                body = await gzipped(body, zlib.Z_BEST_COMPRESSION)
            self._bodies[key] = body, f'"{make_etag(body)}"'
        body, tag = self._bodies[key]
        headers = {**file.headers, hdrs.ETAG: tag}
        if is_compressed:
            headers[hdrs.CONTENT_ENCODING] = GZIP
        return web.Response(body=body, content_type=file.media_type, headers=headers)
