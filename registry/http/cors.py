"""Which pages of other origins may use the service: CORS (Fetch, 3.2) and Fetch Metadata."""

from aiohttp import hdrs, web
from multidict import CIMultiDict

from registry.http.responses import POSITION, DocumentResponse
from registry.jsonapi.error_types import CrossSiteRequest
from registry.protocol import (
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_REPLAYED,
    LAST_EVENT_ID,
    PREFER,
    PREFERENCE_APPLIED,
    REQUEST_ID,
)

_PREFLIGHT_HEADERS: dict[str, str] = {
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, POST, PATCH, DELETE",
    # `*` would not include Authorization.
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: ", ".join(
        (
            hdrs.ACCEPT,
            hdrs.AUTHORIZATION,
            hdrs.CONTENT_TYPE,
            IDEMPOTENCY_KEY,
            hdrs.IF_MATCH,
            hdrs.IF_NONE_MATCH,
            LAST_EVENT_ID,
            PREFER,
            "traceparent",
            "tracestate",
            REQUEST_ID,
        )
    ),
    hdrs.ACCESS_CONTROL_MAX_AGE: "7200",  # seconds: the most that Chromium accepts
}

FETCH_SITE, _FETCH_MODE = "Sec-Fetch-Site", "Sec-Fetch-Mode"

_EXPOSED_HEADERS = ", ".join(
    (
        hdrs.CONTENT_DISPOSITION,
        hdrs.ETAG,
        hdrs.LOCATION,
        hdrs.RETRY_AFTER,
        IDEMPOTENCY_REPLAYED,
        POSITION,
        PREFERENCE_APPLIED,
        REQUEST_ID,
    )
)


class Cors:
    """Allows pages of these origins to send requests and to read the responses.

    origins: as in `Origin`, or `*` for all. Credentials that a browser adds by itself are never
    allowed. pages: prefixes of the paths, beside the root, that links of any site may lead to.
    """

    def __init__(self, origins: tuple[str, ...], pages: tuple[str, ...] = ()) -> None:
        self._origins = frozenset(origins)
        self.is_on = bool(origins)
        self._allows_all = "*" in origins
        self._pages = pages

    def check(self, request: web.BaseRequest) -> None:
        """Raise CrossSiteRequest for a request of a page of another site that is not allowed.

        A browser also sends requests whose response the page cannot read, such as for an image.
        """
        if request.headers.get(FETCH_SITE) != "cross-site":  # or the client is not a browser
            return
        is_link = request.headers.get(_FETCH_MODE) == "navigate" and (
            request.path == "/" or request.path.startswith(self._pages)
        )
        if not (is_link or self._allows_all or self._allows(request)):
            raise CrossSiteRequest

    def preflight(self, request: web.BaseRequest) -> DocumentResponse | None:
        """Return the response to a preflight request, which needs no token; None for others."""
        is_preflight = (
            request.method == hdrs.METH_OPTIONS
            and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
            and self._allows(request)
        )
        return DocumentResponse(204, b"", _PREFLIGHT_HEADERS) if is_preflight else None

    def add_headers(self, request: web.BaseRequest, headers: CIMultiDict[str]) -> None:
        """Add the headers to those of a response that is not sent yet."""
        if not self._allows_all:
            headers.add(hdrs.VARY, hdrs.ORIGIN)
        if self._allows(request):
            origin = "*" if self._allows_all else request.headers[hdrs.ORIGIN]
            headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _EXPOSED_HEADERS

    def _allows(self, request: web.BaseRequest) -> bool:
        origin = request.headers.get(hdrs.ORIGIN)
        return origin is not None and (self._allows_all or origin in self._origins)
