"""Swagger UI, served with the OpenAPI document."""

from functools import cache
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NoReturn

import aiohttp_swagger3
import orjson
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from registry.http.compression import GZIP, compresses, gzipped
from registry.http.service_urls import UI_PATH
from registry.http.views.site import ReadOnlyView, allow_reading
from registry.installation import SWAGGER_UI

_FILES = web.AppKey("files", dict[str, bytes])
_COMPRESSED_FILES = web.AppKey("compressed_files", dict[str, bytes])
_PAGE = Path(__file__).with_name("page")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Prevents the page from loading from other hosts, contacting them, or being framed by them."""


def version() -> str:
    """Return the version of Swagger UI that is served: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount(app: web.Application, description: dict[str, Any]) -> None:
    """Serve Swagger UI at /api/swagger/, and the OpenAPI document below it."""
    document = orjson.dumps(description)
    pages = {"": _files(_PAGE)["index.html"], "swagger.json": document, "openapi.json": document}
    static = _files(_directory()) | _files(_PAGE)
    ui = web.Application(middlewares=[add_policy])
    ui[_FILES] = pages | {f"swagger_ui_static/{name}": file for name, file in static.items()}
    ui[_COMPRESSED_FILES] = {}
    ui.add_routes([web.get("/{path:.*}", _get_file), web.options("/{path:.*}", allow_reading)])
    app.add_routes([web.view(UI_PATH, _RedirectView)])
    app.add_subapp(UI_PATH, ui)


def _directory() -> Path:
    """Return the directory with the files of Swagger UI."""
    bundled = Path(aiohttp_swagger3.__file__).with_name("swagger_ui")
    return SWAGGER_UI if SWAGGER_UI.is_dir() else bundled


@cache
def _files(directory: Path) -> dict[str, bytes]:
    """Return the contents by name; all applications of a process share them."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def _get_file(request: web.Request) -> web.Response:
    path = request.match_info["path"]
    content = request.app[_FILES].get(path)
    if content is None:
        raise web.HTTPNotFound
    type_ = guess_type(path or "index.html")[0] or "text/plain"
    response = web.Response(body=content, content_type=type_)
    if compresses(request, len(content)):
        # Once, as the largest takes 20 ms, and needs no token.
        compressed = request.app[_COMPRESSED_FILES]
        if path not in compressed:
            compressed[path] = await gzipped(content)
        response.body = compressed[path]
        response.headers[hdrs.CONTENT_ENCODING] = GZIP
    return response


class _RedirectView(ReadOnlyView):
    async def get(self) -> NoReturn:
        raise web.HTTPMovedPermanently(f"{UI_PATH}/")

    head = get


@web.middleware
async def add_policy(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Add the Content-Security-Policy to a response."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers["Content-Security-Policy"] = _POLICY
        raise
    response.headers["Content-Security-Policy"] = _POLICY
    return response
