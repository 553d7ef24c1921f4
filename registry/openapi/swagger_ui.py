"""Swagger UI and the OpenAPI document, which aiohttp-swagger3 serves."""

import re
import warnings
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp_swagger3
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from aiohttp_swagger3 import SwaggerDocs, SwaggerUiSettings

from registry.http.addresses import UI_PATH
from registry.http.views.site import read_only
from registry.openapi.schemas import Json
from registry.program import SWAGGER_UI
from registry.web import read_files
from registry.web.static_files import POLICY, File, StaticFiles, content_security_policy

_READING = (hdrs.METH_GET, hdrs.METH_HEAD)

_INLINE = re.compile(r"<(script|style)>(.*?)</", re.DOTALL)
"""A script or a style sheet within a page."""


class _UiSettings(SwaggerUiSettings):
    """Settings of Swagger UI, with one that aiohttp-swagger3 does not know."""

    def to_settings(self) -> dict[str, Any]:
        """Return the settings by name."""
        # Highlighting blocks the page for a minute on 3,000 resources.
        return {**super().to_settings(), "syntaxHighlight": {"activated": False}}


def swagger_ui_version() -> str:
    """Return the version of Swagger UI that is served: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount_swagger_ui(app: web.Application, description: Json) -> None:
    """Serve Swagger UI at /api/swagger/, and the OpenAPI document below it."""
    pages = web.Application(middlewares=[_keep_responses(StaticFiles())])
    # aiohttp uses the first route that fits: these, in place of that of the bundled files.
    for path in ("/swagger_ui_static", "/swagger_ui_static/{name:.*}"):
        pages.add_routes(read_only(path, _show_file))
    # The library stores what it serves under strings, where aiohttp wants an AppKey. Those of an
    # application of its own cannot meet others.
    warnings.filterwarnings("ignore", category=web.NotAppKeyWarning, module="aiohttp_swagger3")
    docs = SwaggerDocs(
        pages,
        validate=False,  # marshmallow does
        swagger_ui_settings=_UiSettings(
            path="/",
            layout="BaseLayout",  # the other has an input for the URL of another description
            defaultModelsExpandDepth=0,
            validatorUrl=None,  # the default is a service of another host
        ),
    )
    docs.spec.update(description)
    handlers = {
        route.resource.canonical: route.handler for route in pages.router.routes() if route.resource
    }
    pages.add_routes(
        [
            *read_only("", _redirect),
            # The library has routes for GET only, and one name for the document.
            *read_only("/", handlers["/"]),
            *read_only("/swagger.json", handlers["/swagger.json"]),
            *read_only("/openapi.json", handlers["/swagger.json"]),
        ]
    )
    app.add_subapp(UI_PATH, pages)


def _keep_responses(files: StaticFiles) -> Middleware:
    """Return a middleware that keeps each response with 200, as none of them ever changes."""

    @web.middleware
    async def keep_responses(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in _READING and request.path in files:
            return await files.respond(request, request.path)
        try:
            response = await handler(request)
        except web.HTTPException as error:
            error.headers.update(POLICY)
            raise
        if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
            return response
        policy = _policy(response.text or "") if response.content_type == "text/html" else POLICY
        files.add(request.path, File(response.body, response.content_type, policy))
        return await files.respond(request, request.path)

    return keep_responses


def _policy(page: str) -> dict[str, str]:
    """Return the Content-Security-Policy that allows what a page contains, and nothing else."""
    hashes = {
        tag: f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
        for tag, text in _INLINE.findall(page)
    }
    return content_security_policy(**hashes)


async def _show_file(request: web.Request) -> web.Response:
    """Respond with a file of Swagger UI. Raises HTTPNotFound."""
    if (file := read_files(_directory()).get(request.match_info.get("name", ""))) is None:
        raise web.HTTPNotFound
    return web.Response(body=file.content, content_type=file.media_type)


async def _redirect(_: web.Request) -> web.Response:
    """Respond with 301 to the page."""
    return web.Response(status=301, headers={**POLICY, hdrs.LOCATION: f"{UI_PATH}/"})


def _directory() -> Path:
    """Return the directory with the files of Swagger UI."""
    bundled = Path(aiohttp_swagger3.__file__).with_name("swagger_ui")
    return SWAGGER_UI if SWAGGER_UI.is_dir() else bundled
