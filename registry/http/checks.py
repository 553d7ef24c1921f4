"""What is refused before a path is looked at: heads, hosts, and pages of other sites.

CORS (Fetch, 3.2) and Fetch Metadata decide what pages of other origins may send and read.
"""

from collections.abc import Awaitable, Mapping

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict, istr

from registry.http.addresses import HEALTH_PATHS, Addresses
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

_VERSIONS = (HttpVersion11, HttpVersion10)


class Cors:
    """The origins whose pages may use the service.

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
        if request.headers.get(_FETCH_SITE) != "cross-site":  # or the client is not a browser
            return
        is_link = request.headers.get(_FETCH_MODE) == "navigate" and (
            request.path == "/" or request.path.startswith(self._pages)
        )
        if not (is_link or self._allows_all or self._allows(request)):
            raise CrossSiteRequest

    def is_preflight(self, request: web.BaseRequest) -> bool:
        """Return whether a request only asks whether an allowed page may send another."""
        return (
            request.method == hdrs.METH_OPTIONS
            and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
            and self._allows(request)
        )

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


@web.middleware
def check_head(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
    """Tell the connection that a head has arrived; refuse one that no path accepts."""
    connection = connection_of(request)
    if connection is not None:
        connection.begin(request)
    if request.version not in _VERSIONS:
        raise MalformedRequest("The version of HTTP must be 1.1 or 1.0.")
    if hdrs.EXPECT in request.headers:
        expected = request.headers[hdrs.EXPECT].lower()
        if request.version >= HttpVersion11 and expected not in {"", "100-continue"}:
            raise ExpectationFailed
    if request.method == hdrs.METH_OPTIONS and request.raw_path == "*":  # RFC 9110, 9.3.7
        return _no_content()
    return handler(request)


async def defer_continue(_: web.Request) -> None:
    """Replace aiohttp's handler of `Expect`, which asks for every body, also one to be rejected.

    `check_head` refuses other expectations, and `read_body` asks for the body that it reads.
    """


async def _no_content(headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(status=204, headers=headers)


def check_site(addresses: Addresses, cors: Cors) -> Middleware:
    """Return the middleware that lets through only what no other site can forge.

    It refuses other hosts and pages of other sites, and responds to preflight requests.
    """

    @web.middleware
    def check_site(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
        try:
            addresses.check_host(request)
            if _FETCH_SITE in request.headers:
                cors.check(request)
        except ApiError:
            # Orchestrators send health checks to whatever name they know.
            if request.path not in HEALTH_PATHS:
                raise
        is_preflight = cors.is_on and cors.is_preflight(request)
        return _no_content(_ALLOWED) if is_preflight else handler(request)

    return check_site
