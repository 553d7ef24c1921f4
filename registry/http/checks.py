"""What is refused before a path is looked at: heads, hosts, and pages of other sites.

CORS (Fetch, 3.2) and Fetch Metadata decide what pages of other origins may send and read.
"""

from collections.abc import Awaitable, Mapping

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict, istr

from registry.http.addresses import HEALTH_PATHS, ROOT_PATH, UI_PATH, Addresses
from registry.http.connection import connection_of
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.error_types import CrossSiteRequest, ExpectationFailed, MalformedRequest

_ALLOWED: dict[str, str] = {
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, POST, PATCH, DELETE",
    # `*` would not include Authorization.
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Accept, Authorization, Content-Type, Idempotency-Key, "
    "If-Match, If-None-Match, Last-Event-ID, Prefer, traceparent, tracestate, X-Request-ID",
    hdrs.ACCESS_CONTROL_MAX_AGE: "7200",  # seconds: the most that Chromium accepts
}
_EXPOSED = (
    "Content-Disposition, Etag, Location, Retry-After, Idempotency-Replayed, Registry-Position, "
    "Preference-Applied, X-Request-ID"
)

_FETCH_SITE, _FETCH_MODE = istr("Sec-Fetch-Site"), istr("Sec-Fetch-Mode")

VERSIONS = (HttpVersion11, HttpVersion10)
"""The versions of HTTP that are served."""


class Cors:
    """The origins whose pages may use the service.

    origins: as in `Origin`, or `*` for all. Credentials that a browser adds by itself are never
    allowed.
    """

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._origins = frozenset(origins)
        self.is_on = bool(origins)
        self._allows_all = "*" in origins

    def check(self, request: web.BaseRequest) -> None:
        """Raise CrossSiteRequest for a request of a page of another site that is not allowed.

        A browser also sends requests whose response the page cannot read, such as for an image.
        Links of any site may lead to the pages for people.
        """
        if request.headers.get(_FETCH_SITE) != "cross-site":  # or the client is not a browser
            return
        is_link = request.headers.get(_FETCH_MODE) == "navigate" and (
            request.path == ROOT_PATH or request.path.startswith(UI_PATH)
        )
        if not (is_link or self._allows_all or self._allows(request)):
            raise CrossSiteRequest

    def is_preflight(self, request: web.BaseRequest) -> bool:
        """Return whether OPTIONS only asks whether an allowed page may send another request."""
        is_asking = hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
        return is_asking and self._allows(request)

    def add_headers(self, request: web.BaseRequest, headers: CIMultiDict[str]) -> None:
        """Add the headers to those of a response that is not sent yet."""
        if not self._allows_all:
            headers.add(hdrs.VARY, hdrs.ORIGIN)
        if self._allows(request):
            origin = "*" if self._allows_all else request.headers[hdrs.ORIGIN]
            headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _EXPOSED

    def _allows(self, request: web.BaseRequest) -> bool:
        origin = request.headers.get(hdrs.ORIGIN)
        return origin is not None and (self._allows_all or origin in self._origins)


async def defer_continue(_: web.Request) -> None:
    """Replace aiohttp's handler of `Expect`, which asks for every body, also one to be rejected.

    `check_request` refuses other expectations, and `body_pieces` asks for the body that it reads.
    """


def check_request(addresses: Addresses, cors: Cors) -> Middleware:
    """Return the middleware that tells the connection that a request has arrived, and checks it.

    It refuses heads that no path accepts, other hosts, and pages of other sites; it responds to
    preflight requests and `OPTIONS *`.
    """

    @web.middleware
    def check_request(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
        connection = connection_of(request)
        if connection is not None:
            connection.begin(request)
        headers = request.headers
        if (
            hdrs.EXPECT in headers
            or hdrs.TRANSFER_ENCODING in headers
            or request.version != HttpVersion11
        ):
            _check_head(request)
        try:
            addresses.check_host(request)
            if _FETCH_SITE in headers:
                cors.check(request)
        except ApiError:
            # Orchestrators send health checks to whatever name they know.
            if request.path not in HEALTH_PATHS:
                raise
        if request.method == hdrs.METH_OPTIONS:
            if request.raw_path == "*":  # RFC 9110, 9.3.7
                return _no_content()
            if cors.is_preflight(request):
                return _no_content(_ALLOWED)
        return handler(request)

    return check_request


def _check_head(request: web.Request) -> None:
    """Raise MalformedRequest, or ExpectationFailed, for a head that no path accepts."""
    headers = request.headers
    if request.version not in VERSIONS:
        raise MalformedRequest("The version of HTTP must be 1.1 or 1.0.")
    # aiohttp would pass on a body in another coding.
    if headers.get(hdrs.TRANSFER_ENCODING, "chunked").strip().lower() != "chunked":
        raise MalformedRequest("The only supported `Transfer-Encoding` is `chunked`.")
    expected = headers.get(hdrs.EXPECT, "").lower()
    if expected not in {"", "100-continue"} and request.version >= HttpVersion11:
        raise ExpectationFailed


async def _no_content(headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=204, headers=headers)
