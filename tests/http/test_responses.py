"""The headers that all responses have, and the response that is sent in one write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import hdrs, web

from registry.http.responses import DocumentResponse
from tests.http.conftest import Start, exchange
from tests.support import MEDIA_TYPE, VARY

GET = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"


async def document(request: web.Request) -> DocumentResponse:
    status = int(request.query.get("status", "200"))
    if status == 304:
        return DocumentResponse(status, b"", {hdrs.ETAG: '"x"'})
    return DocumentResponse(status, b"{}", {hdrs.ETAG: '"x"', hdrs.CONTENT_TYPE: MEDIA_TYPE})


async def no_content(_: web.Request) -> web.Response:
    return web.Response(status=204)


@pytest.mark.parametrize(
    "request_bytes", [GET, GET.replace(b"/ ", b"/nothing "), b"x\r\n\r\n", b"G"]
)
@pytest.mark.parametrize("handler", [document, no_content])
async def test_each_response_has_the_common_headers_once(
    start: Start,
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    request_bytes: bytes,
) -> None:
    """Of a view, of routing, and of the connection: malformed HTTP, a head that is too slow."""
    received = await exchange(await start(handler), request_bytes)
    head = received.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
    pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in head)]
    headers = dict(pairs)
    assert len(headers) == len(pairs)
    assert (headers["server"], headers["vary"]) == ("registry", VARY)
    assert len(headers["x-request-id"]) == 32
    parsedate_to_datetime(headers["date"])


@pytest.mark.parametrize("closing", [True, False])
async def test_force_close_closes_the_connection(start: Start, closing: bool) -> None:
    async def handler(_: web.Request) -> DocumentResponse:
        response = DocumentResponse(200, b"{}", {})
        if closing:
            response.force_close()
        return response

    two = GET.replace(b"Connection: close\r\n", b"") + GET
    received = await exchange(await start(handler), two)
    assert received.count(b"HTTP/1.1 200 OK") == (1 if closing else 2)
