"""Swagger UI, served with the OpenAPI document."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp_swagger3
import orjson
from aiohttp import web

from registry.http.addresses import UI_PATH
from registry.http.compression import POLICY, StaticFiles, read_files
from registry.http.views.site import allow_reading
from registry.program import SWAGGER_UI

_PAGE = Path(__file__).with_name("page")


def version() -> str:
    """Return the version of Swagger UI that is served: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount(app: web.Application, describe: Callable[[], dict[str, Any]]) -> None:
    """Serve Swagger UI at /api/swagger/, and the OpenAPI document, which takes long, below it."""
    files = StaticFiles(partial(_contents, describe))
    app.add_routes(
        [
            web.get(UI_PATH, _redirect),
            web.options(UI_PATH, allow_reading),
            web.get(f"{UI_PATH}/{{path:.*}}", files.get),
            web.options(f"{UI_PATH}/{{path:.*}}", allow_reading),
        ]
    )


def _contents(describe: Callable[[], dict[str, Any]]) -> dict[str, bytes]:
    document = orjson.dumps(describe())
    static = read_files(_directory()) | read_files(_PAGE)
    return {
        "": static["index.html"],
        "swagger.json": document,
        "openapi.json": document,
        **{f"swagger_ui_static/{name}": one for name, one in static.items()},
    }


async def _redirect(_: web.Request) -> web.Response:
    """Raise HTTPMovedPermanently to the page."""
    raise web.HTTPMovedPermanently(f"{UI_PATH}/", headers=POLICY)


def _directory() -> Path:
    """Return the directory with the files of Swagger UI."""
    bundled = Path(aiohttp_swagger3.__file__).with_name("swagger_ui")
    return SWAGGER_UI if SWAGGER_UI.is_dir() else bundled
