"""Requests whose head no path accepts."""

from itertools import chain

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion11
from aiohttp.typedefs import Handler, Middleware

from registry.http.app_keys import Limits
from registry.jsonapi.error_types import ExpectationFailed, HeaderFieldsTooLarge


def check_head(limits: Limits) -> Middleware:
    """Return the middleware that refuses heads which no path accepts."""

    @web.middleware
    async def check_head(request: web.Request, handler: Handler) -> web.StreamResponse:
        fields = request.raw_headers
        size = sum(map(len, chain.from_iterable(fields))) + len(fields) * len(": \r\n")
        if size > limits.fields_bytes:
            raise HeaderFieldsTooLarge(limits.fields_bytes)
        if hdrs.EXPECT in request.headers:
            expected = request.headers[hdrs.EXPECT].lower()
            if request.version >= HttpVersion11 and expected not in {"", "100-continue"}:
                raise ExpectationFailed
        if request.method == hdrs.METH_OPTIONS and request.raw_path == "*":  # RFC 9110, 9.3.7
            return web.Response(status=204)
        return await handler(request)

    return check_head


async def defer_continue(_: web.Request) -> None:
    """Replace aiohttp's handler of `Expect`, which asks for every body, also one to be rejected.

    `check_head` refuses other expectations, and `read_body` asks for the body that it reads.
    """
