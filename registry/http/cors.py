"""What pages of other origins may send and read: CORS (Fetch, 3.2) and Fetch Metadata."""

from collections.abc import Awaitable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware
from multidict import CIMultiDict, istr

from registry.http.addresses import HEALTH_PATHS, Addresses
from registry.jsonapi.error_objects import ApiError
from registry.jsonapi.error_types import CrossSiteRequest

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


async def _respond_to_preflight() -> web.Response:
    return web.Response(status=204, headers=_ALLOWED)


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
        return _respond_to_preflight() if is_preflight else handler(request)

    return check_site
