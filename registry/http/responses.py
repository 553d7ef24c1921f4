"""Responses: the headers they all have, CORS, and documents that are sent in a single write."""

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from http import HTTPStatus
from random import getrandbits

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion, HttpVersion11
from multidict import CIMultiDict, istr

from registry.jsonapi.error_types import CrossSiteRequest
from registry.protocol import REQUEST_ID

POSITION = "Registry-Position"
"""The position in the change feed of the point in time that a document shows."""

MAX_WRITE = 2**18
"""Bytes of a body that are passed to the connection at once: those it buffers for a slow client."""

SENT_ID, TRACEPARENT = istr(REQUEST_ID), istr("traceparent")
"""Header names that are looked up faster than other strings."""

_ID = re.compile(r"[!-~]{1,128}")

_TRACEPARENT = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)
"""Version ff is invalid, and only later versions than 00 may have further parts."""


_REQUEST_ID = web.RequestKey("request_id", str)

_CONSTANT_HEADERS: dict[str, str] = {
    # A cache asks the service, with the entity tag, before each use; a shared one stores nothing,
    # as what a response contains may depend on who asks (RFC 9111, 5.2.2).
    hdrs.CACHE_CONTROL: "private, no-cache",
    hdrs.VARY: f"{hdrs.ACCEPT}, {hdrs.ACCEPT_ENCODING}",
    "X-Content-Type-Options": "nosniff",
    # Not for images, scripts and other parts of pages of other origins; CORS is not affected.
    "Cross-Origin-Resource-Policy": "same-origin",
    hdrs.SERVER: "registry",  # without a version, which would reveal known vulnerabilities
}
_CONSTANT_LINES = "".join(f"{name}: {value}\r\n" for name, value in _CONSTANT_HEADERS.items())

_PREFLIGHT_HEADERS: dict[str, str] = {
    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, POST, PATCH, DELETE",
    # `*` would not include Authorization.
    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "Accept, Authorization, Content-Type, Idempotency-Key, "
    "If-Match, If-None-Match, Last-Event-ID, Prefer, traceparent, tracestate, X-Request-ID",
    hdrs.ACCESS_CONTROL_MAX_AGE: "7200",  # seconds: the most that Chromium accepts
}
_EXPOSED_HEADERS = (
    "Content-Disposition, Etag, Location, Retry-After, Idempotency-Replayed, Registry-Position, "
    "Preference-Applied, X-Request-ID"
)

FETCH_SITE, _FETCH_MODE = "Sec-Fetch-Site", "Sec-Fetch-Mode"


def sent_id(headers: Mapping[str, str]) -> str | None:
    """Return the valid id that a request has in `X-Request-ID`, else that of its trace, if any."""
    sent = headers.get(SENT_ID)
    return sent if sent is not None and _ID.fullmatch(sent) else trace_id(headers)


def trace_id(headers: Mapping[str, str]) -> str | None:
    """Return the trace id in `traceparent` (W3C Trace Context, 3.2); None if it is malformed."""
    match = _TRACEPARENT.fullmatch(headers.get(TRACEPARENT, ""))
    return match[1] if match else None


def request_id(request: web.BaseRequest) -> str:
    """Return the id of the request: the one sent, or a new one, which is not a secret."""
    try:
        id_: str = request[_REQUEST_ID]
    except KeyError:
        headers = request.headers
        is_sent = SENT_ID in headers or TRACEPARENT in headers
        id_ = (sent_id(headers) if is_sent else None) or f"{getrandbits(128):032x}"
        request[_REQUEST_ID] = id_
    return id_


def common_headers(request_id: str) -> dict[str, str]:
    """Return the headers that every response has (JSON:API 1.0, Content Negotiation: `Vary`)."""
    return {REQUEST_ID: request_id, hdrs.DATE: rfc822_formatted_time(), **_CONSTANT_HEADERS}


async def write_parts(
    write: Callable[[memoryview], Awaitable[None]], body: bytes | memoryview, size: int
) -> None:
    """Write a body in parts of at most so many bytes, and wait after each for the client."""
    for start in range(0, len(body), size):
        await write(memoryview(body)[start : start + size])


class NoResponse(web.StreamResponse):
    """Ends a request whose connection is closed: it sends nothing."""

    async def prepare(self, _: web.BaseRequest) -> AbstractStreamWriter | None:
        """Raise ConnectionResetError, so that aiohttp ends the connection silently."""
        raise ConnectionResetError


class DocumentResponse(web.StreamResponse):
    """A response that is sent in one write, head and body, unless it is very large.

    Through aiohttp's own path, reading one person takes 14 % more CPU time. headers: beside
    `common_headers`; sent unchecked, so they must not contain text of a client.
    """

    _stays_open = True

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(status=status, headers=headers)
        self._content = body

    @property
    def keep_alive(self) -> bool | None:
        """Whether the connection stays open after this response."""
        return self._stays_open

    def force_close(self) -> None:
        """Close the connection after this response."""
        super().force_close()
        self._stays_open = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Send the response, without the signal `on_response_prepare`."""
        if not request.keep_alive:
            self.force_close()
        body = b"" if request.method == hdrs.METH_HEAD else self._content
        writer = request.writer
        status, headers = self.status, self.headers
        lines = "".join(map("{}: {}\r\n".format, headers.keys(), headers.values()))
        if status not in {204, 304}:  # which have no content (RFC 9110, 15.3.5 and 15.4.5)
            lines += f"Content-Length: {len(self._content)}\r\n"
        head = (
            f"{_first_lines(request.version, status, self._stays_open)}{lines}"
            f"{REQUEST_ID}: {request_id(request)}\r\n"
            f"Date: {rfc822_formatted_time()}\r\n\r\n"
        )
        await writer.write(head.encode() + body[:MAX_WRITE])
        if len(body) > MAX_WRITE:
            # A view, as other clients may be sent the same body.
            await write_parts(writer.write, memoryview(body)[MAX_WRITE:], MAX_WRITE)
        # aiohttp waits for the client only after 64 KiB.
        await writer.drain()
        return writer

    async def write_eof(self, _: bytes = b"") -> None:
        """Do nothing: `prepare` has sent the body."""


@cache
def _first_lines(version: HttpVersion, status: int, stays_open: bool) -> str:
    """Return the status line and the headers that depend on nothing else."""
    status_line = f"HTTP/{version.major}.{version.minor} {status} {HTTPStatus(status).phrase}\r\n"
    lines = status_line + _CONSTANT_LINES
    if stays_open is (version >= HttpVersion11):  # the default of the version
        return lines
    return f"{lines}{hdrs.CONNECTION}: {'keep-alive' if stays_open else 'close'}\r\n"


class Cors:
    """What pages of these origins may send and read, by CORS (Fetch, 3.2) and Fetch Metadata.

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
