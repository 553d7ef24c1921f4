"""Serves the page for people, whose files are in `page`."""

from functools import cache
from mimetypes import guess_type
from pathlib import Path

from aiohttp import web

from registry.http.addresses import PAGE_PATH
from registry.http.views.site import PAGE, read_only
from registry.web.static_files import POLICY, File, StaticFiles

_DIRECTORY = Path(__file__).with_name("page")
_INDEX = "index.html"


def mount_page(app: web.Application) -> None:
    """Serve the page at the root, where browsers ask for HTML, and its files at /api/page/."""
    files = StaticFiles()
    for name, file in read_files(_DIRECTORY).items():
        files.add(name, file)

    async def show_file(request: web.Request) -> web.Response:
        return await files.respond(request, request.match_info["name"])

    app[PAGE] = lambda request: files.respond(request, _INDEX)
    app.add_routes(read_only(f"{PAGE_PATH}/{{name}}", show_file))


@cache
def read_files(directory: Path) -> dict[str, File]:
    """Return the files in a directory by name; all applications of a process share them."""
    return {
        path.name: File(path.read_bytes(), guess_type(path.name)[0] or "text/plain", POLICY)
        for path in directory.iterdir()
    }
