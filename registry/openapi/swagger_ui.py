"""Swagger UI: the page that shows the OpenAPI document and tries it out."""

from __future__ import annotations

import re
import sys
import warnings
from base64 import b64encode
from hashlib import sha256
from mimetypes import guess_type
from pathlib import Path
from typing import Any, NoReturn

import aiohttp_swagger3
from aiohttp import hdrs, web
from aiohttp_swagger3 import SwaggerDocs, SwaggerUiSettings

from registry.http.app_keys import UI_PATH


class _Settings(SwaggerUiSettings):
    """Settings of the page."""

    def to_settings(self) -> dict[str, Any]:
        """Return them as the page takes them."""
        # Colours cost Swagger UI a minute on the answer to a list of 3,000.
        return {**super().to_settings(), "syntaxHighlight": {"activated": False}}


# The other layout has a box for the address of another description, which _policy refuses anyway.
_SETTINGS = _Settings(path="/", layout="BaseLayout", validatorUrl=None)
_FILES = web.AppKey("files", dict[str, bytes])
_STATIC = "/swagger_ui_static"
_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


def version() -> str:
    """Return the version of Swagger UI that is shown: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount(app: web.Application, description: dict[str, Any]) -> None:
    """Show an OpenAPI document: the page at /api/swagger/, the document itself beside it."""
    ui = web.Application()
    ui.on_response_prepare.append(add_security_headers)
    ui[_FILES] = {path.name: path.read_bytes() for path in _directory().iterdir()}
    # Before those of aiohttp-swagger3, which has the bundled files at the same paths.
    for path in (_STATIC, _STATIC + "/{name:.*}"):
        ui.add_routes([web.get(path, _file), web.options(path, _options)])
    _show(ui, description)
    app.add_routes([web.view(UI_PATH, _WithoutSlash)])
    app.add_subapp(UI_PATH, ui)


def _show(ui: web.Application, description: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        # aiohttp-swagger3 keeps its page and its document under strings, not under AppKeys.
        warnings.simplefilter("ignore", web.NotAppKeyWarning)
        docs = SwaggerDocs(ui, validate=False, swagger_ui_settings=_SETTINGS)
    docs.spec.clear()
    docs.spec.update(description)
    # It answers GET alone, and knows its document by one name.
    handlers = {
        resource.canonical: route.handler
        for resource in ui.router.resources()
        for route in resource
    }
    page, document = handlers["/"], handlers["/swagger.json"]
    ui.add_routes(
        [
            web.head("/", page),
            web.head("/swagger.json", document),
            web.get("/openapi.json", document),
            *(web.options(path, _options) for path in ("/", "/swagger.json", "/openapi.json")),
        ]
    )


def _directory() -> Path:
    """Return where the files are that the page loads; scripts/swagger-ui makes the first."""
    installed = Path(sys.prefix, "share", "swagger-ui")
    bundled = Path(aiohttp_swagger3.__file__).with_name("swagger_ui")
    return installed if installed.is_dir() else bundled


async def _file(request: web.Request) -> web.Response:
    name = request.match_info.get("name", "")
    content = request.app[_FILES].get(name)
    if content is None:
        raise web.HTTPNotFound
    return web.Response(body=content, content_type=guess_type(name)[0] or "text/plain")


class _WithoutSlash(web.View):
    async def get(self) -> NoReturn:
        raise web.HTTPMovedPermanently(f"{UI_PATH}/")

    head = get

    async def options(self) -> web.Response:
        return await _options(self.request)


async def _options(_: web.Request) -> web.Response:
    return web.Response(status=204, headers={hdrs.ALLOW: "GET, HEAD, OPTIONS"})


async def add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Keep what is shown here from loading, asking or being framed by another host."""
    page = ""
    if isinstance(response, web.Response) and response.content_type == "text/html":
        page = response.text or ""
    response.headers["Content-Security-Policy"] = _policy(page)
    response.headers["X-Content-Type-Options"] = "nosniff"
    # Another version of Swagger UI has other files of the same names.
    response.headers[hdrs.CACHE_CONTROL] = "no-cache"


def _policy(page: str) -> str:
    """Return the policy that lets the scripts and styles in the page itself pass, by their hash."""
    inline: dict[str, str] = {"script": "", "style": ""}
    for element, content in _INLINE.findall(page):
        inline[element] += f" 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'self'{inline['script']}",
            f"style-src 'self'{inline['style']}",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )
