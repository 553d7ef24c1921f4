"""Files of pages, served from memory to everybody."""

import zlib
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path

from aiohttp import hdrs, web

from registry.http.compression import GZIP, compresses, gzipped
from registry.http.etags import GZIP_SUFFIX

POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
}
"""Prevents a page from loading from other hosts, contacting them, or being framed by them."""

_INDEX = "index.html"
_DIGEST_DIGITS = 24


@cache
def read_files(directory: Path) -> dict[str, bytes]:
    """Return the contents of files by name; all applications of a process share them."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class StaticFiles:
    """Files with a Content-Security-Policy.

    load: returns their contents by path, for the first request; the path of the page is empty.
    """

    def __init__(self, load: Callable[[], Mapping[str, bytes]]) -> None:
        self._load = cache(load)
        self._compressed: dict[str, bytes] = {}
        self._tags: dict[str, str] = {}

    async def get(self, request: web.Request) -> web.Response:
        """Respond with the file that `path` of the route names, or the page without one.

        Responds with 304 if `If-None-Match` has its entity tag (RFC 9110, 13.1.2). Raises
        HTTPNotFound.
        """
        path = request.match_info.get("path", "")
        content = self._load().get(path)
        if content is None:
            raise web.HTTPNotFound(headers=POLICY)
        if path not in self._tags:
            self._tags[path] = sha256(content).hexdigest()[:_DIGEST_DIGITS]
        is_compressed = compresses(request, len(content))
        tag = f'"{self._tags[path]}{GZIP_SUFFIX if is_compressed else ""}"'
        headers = {**POLICY, hdrs.ETAG: tag}
        if tag in request.headers.get(hdrs.IF_NONE_MATCH, ""):
            return web.Response(status=304, headers=headers)
        type_ = guess_type(path or _INDEX)[0] or "text/plain"
        response = web.Response(body=content, content_type=type_, headers=headers)
        if is_compressed:
            # Once, as the largest takes 60 ms, and needs no token.
            if path not in self._compressed:
                self._compressed[path] = await gzipped(content, zlib.Z_BEST_COMPRESSION)
            response.body = self._compressed[path]
            response.headers[hdrs.CONTENT_ENCODING] = GZIP
        return response


PAGE = web.AppKey("page", StaticFiles)
"""The page for people, which the root shows to browsers."""
