"""The head of a request: what no path accepts, and whether its connection must end."""

from collections.abc import Awaitable
from itertools import chain

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.typedefs import Handler, Middleware

from registry.http.app_keys import Limits
from registry.http.connection import connection_of
from registry.jsonapi.error_types import (
    ExpectationFailed,
    HeaderFieldsTooLarge,
    MalformedRequest,
)

_VERSIONS = (HttpVersion11, HttpVersion10)


def check_head(limits: Limits) -> Middleware:
    """Return the middleware that refuses heads which no path accepts."""

    @web.middleware
    def check_head(request: web.Request, handler: Handler) -> Awaitable[web.StreamResponse]:
        connection = connection_of(request)
        if connection is not None:
            connection.begin(request)
        if request.version not in _VERSIONS:
            raise MalformedRequest("The version of HTTP must be 1.1 or 1.0.")
        fields = request.raw_headers
        size = sum(map(len, chain.from_iterable(fields))) + len(fields) * len(": \r\n")
        if size > limits.fields_bytes:
            raise HeaderFieldsTooLarge(limits.fields_bytes)
        if hdrs.EXPECT in request.headers:
            expected = request.headers[hdrs.EXPECT].lower()
            if request.version >= HttpVersion11 and expected not in {"", "100-continue"}:
                raise ExpectationFailed
        if request.method == hdrs.METH_OPTIONS and request.raw_path == "*":  # RFC 9110, 9.3.7
            return _no_content()
        return handler(request)

    return check_head


def is_last(request: web.BaseRequest, response: web.StreamResponse) -> bool:
    """Return whether the connection must close after a response, whatever the client wants.

    It must after a request of another version; after a chunked body, whose last trailer aiohttp
    takes for a field of the next request, which may be that of another client behind a proxy; and
    where HTTP/1.0 has no other end of a stream (RFC 9112, 6.3).
    """
    if hdrs.TRANSFER_ENCODING in request.headers:
        return True
    version = request.version
    return version != HttpVersion11 and (
        version != HttpVersion10 or response.content_length is None
    )


async def _no_content() -> web.Response:
    return web.Response(status=204)


async def defer_continue(_: web.Request) -> None:
    """Replace aiohttp's handler of `Expect`, which asks for every body, also one to be rejected.

    `check_head` refuses other expectations, and `read_body` asks for the body that it reads.
    """
