"""Swagger UI, served with the OpenAPI document."""

from functools import cache
from mimetypes import guess_type
from pathlib import Path
from typing import Any

import aiohttp_swagger3
import orjson
from aiohttp import hdrs, web

from registry.http.compression import GZIP, compresses, gzipped
from registry.http.service_urls import UI_PATH
from registry.http.views.site import allow_reading
from registry.installation import SWAGGER_UI

_PAGE = Path(__file__).with_name("page")
_POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
}
"""Prevents the page from loading from other hosts, contacting them, or being framed by them."""


def version() -> str:
    """Return the version of Swagger UI that is served: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount(app: web.Application, description: dict[str, Any]) -> None:
    """Serve Swagger UI at /api/swagger/, and the OpenAPI document below it."""
    document = orjson.dumps(description)
    pages = {"": _files(_PAGE)["index.html"], "swagger.json": document, "openapi.json": document}
    static = _files(_directory()) | _files(_PAGE)
    site = _Site(pages | {f"swagger_ui_static/{name}": file for name, file in static.items()})
    for path in (UI_PATH, f"{UI_PATH}/{{path:.*}}"):
        app.add_routes([web.get(path, site.get), web.options(path, allow_reading)])


def _directory() -> Path:
    """Return the directory with the files of Swagger UI."""
    bundled = Path(aiohttp_swagger3.__file__).with_name("swagger_ui")
    return SWAGGER_UI if SWAGGER_UI.is_dir() else bundled


@cache
def _files(directory: Path) -> dict[str, bytes]:
    """Return the contents by name; all applications of a process share them."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


class _Site:
    """Files in memory. contents: by their path below that of the page."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self._contents = contents
        self._compressed: dict[str, bytes] = {}

    async def get(self, request: web.Request) -> web.Response:
        """Respond with a file. Raises HTTPNotFound, and HTTPMovedPermanently to the page."""
        path = request.match_info.get("path")
        if path is None:
            raise web.HTTPMovedPermanently(f"{UI_PATH}/", headers=_POLICY)
        content = self._contents.get(path)
        if content is None:
            raise web.HTTPNotFound(headers=_POLICY)
        type_ = guess_type(path or "index.html")[0] or "text/plain"
        response = web.Response(body=content, content_type=type_, headers=_POLICY)
        if compresses(request, len(content)):
            # Once, as the largest takes 20 ms, and needs no token.
            if path not in self._compressed:
                self._compressed[path] = await gzipped(content)
            response.body = self._compressed[path]
            response.headers[hdrs.CONTENT_ENCODING] = GZIP
        return response
