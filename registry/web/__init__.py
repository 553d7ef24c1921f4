"""Serves the page for people, whose files are in `page`, and Swagger UI."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp_swagger3
import orjson
from aiohttp import hdrs, web

from registry.http.addresses import PAGE_PATH, UI_PATH
from registry.http.compression import PAGE, POLICY, StaticFiles, read_files
from registry.http.views.site import read_only
from registry.program import SWAGGER_UI

_DIRECTORY = Path(__file__).with_name("page")
_SWAGGER_PAGE = SWAGGER_UI.with_name("page")


def mount_page(app: web.Application) -> None:
    """Serve the page at the root, where browsers ask for HTML, and its files at /api/page/."""
    files = read_files(_DIRECTORY)
    contents = files | {"": files["index.html"]}
    app[PAGE] = page = StaticFiles(lambda: contents)
    path = f"{PAGE_PATH}/{{path}}"
    app.add_routes(read_only(path, page.get))


def swagger_ui_version() -> str:
    """Return the version of Swagger UI that is served: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount_swagger_ui(app: web.Application, description: Callable[[], dict[str, Any]]) -> None:
    """Serve Swagger UI at /api/swagger/, and the OpenAPI document, which takes long, below it."""
    files = StaticFiles(partial(_contents, description))
    app.add_routes(
        [
            *read_only(UI_PATH, _redirect),
            *read_only(f"{UI_PATH}/{{path:.*}}", files.get),
        ]
    )


def _contents(description: Callable[[], dict[str, Any]]) -> dict[str, bytes]:
    document = orjson.dumps(description())
    static = read_files(_directory()) | read_files(_SWAGGER_PAGE)
    return {
        "": static["index.html"],
        "swagger.json": document,
        "openapi.json": document,
        **{f"swagger_ui_static/{name}": one for name, one in static.items()},
    }


async def _redirect(_: web.Request) -> web.Response:
    """Respond with 301 to the page."""
    return web.Response(status=301, headers={**POLICY, hdrs.LOCATION: f"{UI_PATH}/"})


def _directory() -> Path:
    """Return the directory with the files of Swagger UI."""
    bundled = Path(aiohttp_swagger3.__file__).with_name("swagger_ui")
    return SWAGGER_UI if SWAGGER_UI.is_dir() else bundled
