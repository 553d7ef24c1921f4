"""Swagger UI, served with the OpenAPI document."""

import re
import warnings
from base64 import b64encode
from functools import cache
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NoReturn

import aiohttp_swagger3
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from aiohttp_swagger3 import SwaggerDocs, SwaggerUiSettings

from registry.http.compression import GZIP, compresses, gzipped
from registry.http.service_urls import UI_PATH
from registry.http.views.site import ReadOnlyView, allow_reading
from registry.installation import SWAGGER_UI


class _UiSettings(SwaggerUiSettings):
    def to_settings(self) -> dict[str, Any]:
        """Return the configuration of Swagger UI."""
        # Highlighting blocks the page for a minute on a response with 3,000 resources.
        return {**super().to_settings(), "syntaxHighlight": {"activated": False}}


# StandaloneLayout has an input for the URL of another description, which the policy blocks anyway.
_UI_SETTINGS = _UiSettings(path="/", layout="BaseLayout", validatorUrl=None)
_FILES = web.AppKey("files", dict[str, bytes])
_COMPRESSED_FILES = web.AppKey("compressed_files", dict[str, bytes])
_POLICY = "Content-Security-Policy"
_STATIC_PATH = "/swagger_ui_static"
_INLINE_ELEMENT = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def version() -> str:
    """Return the version of Swagger UI that is served: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount(app: web.Application, description: dict[str, Any]) -> None:
    """Serve Swagger UI at /api/swagger/, and the OpenAPI document below it."""
    ui = web.Application(middlewares=[add_security_headers])
    ui[_COMPRESSED_FILES] = {}
    ui[_FILES] = _files(_directory())
    # Registered before aiohttp-swagger3 registers the bundled files at the same paths.
    for path in (_STATIC_PATH, _STATIC_PATH + "/{name:.*}"):
        ui.add_routes([web.get(path, _get_file), web.options(path, allow_reading)])
    _add_swagger_docs(ui, description)
    _add_missing_routes(ui)
    app.add_routes([web.view(UI_PATH, _RedirectView)])
    app.add_subapp(UI_PATH, ui)


def _add_swagger_docs(ui: web.Application, description: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        # aiohttp-swagger3 stores its state on the application under strings.
        warnings.simplefilter("ignore", web.NotAppKeyWarning)
        docs = SwaggerDocs(ui, validate=False, swagger_ui_settings=_UI_SETTINGS)
    docs.spec.clear()
    docs.spec.update(description)


def _add_missing_routes(ui: web.Application) -> None:
    """Add HEAD, OPTIONS and /openapi.json; aiohttp-swagger3 registers only GET."""
    handlers = {one.canonical: route.handler for one in ui.router.resources() for route in one}
    page, document = handlers["/"], handlers["/swagger.json"]
    ui.add_routes(
        [
            web.head("/", page),
            web.head("/swagger.json", document),
            web.get("/openapi.json", document),
            *(web.options(path, allow_reading) for path in ("/", "/swagger.json", "/openapi.json")),
        ]
    )


def _directory() -> Path:
    """Return the directory of the static files."""
    bundled = Path(aiohttp_swagger3.__file__).with_name("swagger_ui")
    return SWAGGER_UI if SWAGGER_UI.is_dir() else bundled


@cache
def _files(directory: Path) -> dict[str, bytes]:
    """Return the contents by name; all applications of a process share them."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def _get_file(request: web.Request) -> web.Response:
    name = request.match_info.get("name", "")
    content = request.app[_FILES].get(name)
    if content is None:
        raise web.HTTPNotFound
    response = web.Response(body=content, content_type=guess_type(name)[0] or "text/plain")
    if compresses(request, len(content)):
        # Once, as the largest takes 20 ms, and needs no token.
        compressed = request.app[_COMPRESSED_FILES]
        if name not in compressed:
            compressed[name] = await gzipped(content)
        response.body = compressed[name]
        response.headers[hdrs.CONTENT_ENCODING] = GZIP
    return response


class _RedirectView(ReadOnlyView):
    async def get(self) -> NoReturn:
        raise web.HTTPMovedPermanently(f"{UI_PATH}/")

    head = get


@web.middleware
async def add_security_headers(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Prevent the page from loading from other hosts, contacting them, or being framed by them."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        error.headers[_POLICY] = _content_security_policy("")
        raise
    page = ""
    if isinstance(response, web.Response) and response.content_type == "text/html":
        page = response.text or ""
    response.headers[_POLICY] = _content_security_policy(page)
    return response


def _content_security_policy(page: str) -> str:
    """Return a policy that allows the inline scripts and styles of the page by their hashes."""
    hashes = {"script": "", "style": ""}
    for element, content in _INLINE_ELEMENT.findall(page):
        hashes[element] += f" 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
    return (
        f"default-src 'none'; script-src 'self'{hashes['script']}; "
        f"style-src 'self'{hashes['style']}; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
