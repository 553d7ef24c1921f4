"""The paths of the service beside those of resources, and the targets of requests."""

import re
from urllib.parse import quote

from aiohttp import web

ROOT_PATH = "/"
OPERATIONS_PATH = "/operations"
CHANGES_PATH = "/changes"
METRICS_PATH = "/metrics"
LIVE_PATH = "/health/live"
READY_PATH = "/health/ready"
HEALTH_PATHS = frozenset({LIVE_PATH, READY_PATH})
PAGE_PATH = "/api/page"
"""The prefix of the files of the page for people."""

UI_PATH = "/api/swagger"
"""The prefix of Swagger UI and the OpenAPI document."""

_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SAFE = "/?:@!$&'()*+,;=-._~%"


def without_trailing_slash(request: web.Request) -> str:
    """Return a relative URL that leads from the target to the same without its last slash.

    It cannot lead to another host, and stays right where a reverse proxy adds to the path.
    """
    path, mark, query = encoded_target(request).partition("?")
    return f"../{path.removesuffix('/').rpartition('/')[2]}{mark}{query}"


def encoded_target(request: web.BaseRequest) -> str:
    """Return path and query as requested, with unsafe characters percent-encoded."""
    target = request.raw_path
    if not target.startswith("/"):  # absolute-form (RFC 9112, 3.2.2)
        target = str(request.rel_url)
    return quote(_STRAY_PERCENT.sub("%25", target), _SAFE, errors="surrogateescape")
