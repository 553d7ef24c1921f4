"""The OpenAPI 3.0.0 document of a service, and Swagger UI, which shows it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import aiohttp_swagger3
import orjson
from aiohttp import web

import registry
from registry.http.addresses import LIVE_PATH, METRICS_PATH, OPERATIONS_PATH, READY_PATH, UI_PATH
from registry.http.compression import POLICY, StaticFiles, read_files
from registry.http.views.site import read_only
from registry.model.graph import Graph
from registry.model.resource_type import ResourceType
from registry.openapi.paths import HEADERS, SECURITY_SCHEME, describe_paths, error_responses
from registry.openapi.schemas import Json, code, require_distinct, schemas, title
from registry.program import SWAGGER_UI
from registry.protocol import MEDIA_TYPE, REQUEST_ID
from registry.settings import Settings

_PAGE = Path(__file__).with_name("page")

_CONVENTIONS = f"""\
Bodies are `{MEDIA_TYPE}`; `{OPERATIONS_PATH}` adds the extension Atomic Operations. Paths with GET
support HEAD too. `Allow` in the response to OPTIONS lists the methods of a path; other methods get
405, unknown paths 404, unknown query parameters 400. Every error has an error document.
`{REQUEST_ID}` in a response identifies it: clients may send one of 1 to 128 visible ASCII
characters, or a `traceparent` (W3C Trace Context). Responses of 1,000 bytes or more are compressed
with gzip if `Accept-Encoding` allows it.

`/` shows browsers a page for people, and lists the URLs of the collections in `meta` for other
clients, with what their access token allows. A trailing slash is redirected (308). For operators:
`{LIVE_PATH}`, `{READY_PATH}` and, unless it has a port of its own, `{METRICS_PATH}`."""

_SECURITY_SCHEMES: Json = {
    SECURITY_SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "An access token with the scopes that each operation names; `/operations` "
        "requires those of the types that it changes. `read` and `write` suffice for all types, "
        "and writing includes reading. `include`, `filter` and `sort` also require the scope to "
        "read each type they name; changes of relationships, the scope to write the type of the "
        "related resources.",
    }
}


def describe(graph: Graph, settings: Settings) -> Json:
    """Return the OpenAPI document of a service. Raises InvalidDeclaration for ambiguous names."""
    paths = describe_paths(graph, settings)
    require_distinct(one["operationId"] for item in paths.values() for one in item.values())
    return {
        "openapi": "3.0.0",
        "info": {
            "title": "Person and Computer Registry",
            "version": registry.__version__,
            "description": f"{registry.__doc__}\n\n{_CONVENTIONS}",
        },
        "servers": [{"url": settings.public_url or "/"}],
        "tags": [
            *map(_tag, graph.values()),
            {"name": "Operations", "description": "Several changes in one request, all or none."},
            {"name": "Changes", "description": "What changes, as it happens, or after a time."},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas(graph),
            "responses": error_responses(graph, settings),
            "headers": HEADERS,
            **({"securitySchemes": _SECURITY_SCHEMES} if settings.requires_tokens else {}),
        },
    }


def _tag(resource_type: ResourceType) -> Json:
    relationships = ", ".join(
        f"`{name}` (to-{'many' if relationship.to_many else 'one'}, `{relationship.target}`)"
        for name, relationship in resource_type.relationships.items()
    )
    attributes = code(resource_type.attributes)
    description = f"Attributes: {attributes}. Relationships: {relationships or 'none'}."
    return {"name": title(resource_type), "description": description}


def swagger_ui_version() -> str:
    """Return the version of Swagger UI that is served: the installed one, else the bundled one."""
    return (_directory() / "VERSION").read_text("ascii").strip()


def mount_swagger_ui(app: web.Application, description: Callable[[], Json]) -> None:
    """Serve Swagger UI at /api/swagger/, and the OpenAPI document, which takes long, below it."""
    files = StaticFiles(partial(_contents, description))
    app.add_routes(
        [
            *read_only(UI_PATH, _redirect),
            *read_only(f"{UI_PATH}/{{path:.*}}", files.get),
        ]
    )


def _contents(description: Callable[[], Json]) -> dict[str, bytes]:
    document = orjson.dumps(description())
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
