"""Serves the page for people, whose files are in `page`."""

from pathlib import Path

from aiohttp import web

from registry.http.addresses import PAGE_PATH
from registry.http.compression import PAGE, StaticFiles, read_files
from registry.http.views.site import read_only

_DIRECTORY = Path(__file__).with_name("page")


def mount_page(app: web.Application) -> None:
    """Serve the page at the root, where browsers ask for HTML, and its files at /api/page/."""
    files = read_files(_DIRECTORY)
    contents = files | {"": files["index.html"]}
    app[PAGE] = page = StaticFiles(lambda: contents)
    path = f"{PAGE_PATH}/{{path}}"
    app.add_routes(read_only(path, page.get))
