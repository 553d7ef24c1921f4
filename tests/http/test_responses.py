"""The headers that all responses have, and the response that is sent in one write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import hdrs, web

from registry.http.responses import DocumentResponse, request_id
from tests.http.conftest import Client, Start, exchange, new_app
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


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("status", [200, 304])
async def test_a_signal_handler_changes_no_other_part_of_a_response(
    start_app: Callable[[web.Application], Awaitable[Client]], method: str, status: int
) -> None:
    """A document bypasses the response of aiohttp unless on_response_prepare has handlers."""
    seen = []

    async def add_header(request: web.Request, response: web.StreamResponse) -> None:
        seen.append((request_id(request), response.headers[hdrs.ETAG]))
        response.headers["X-Extension"] = "1"

    extended = new_app(document)
    extended.on_response_prepare.append(add_header)
    received = []
    for app in (new_app(document), extended):
        client = await start_app(app)
        async with client.request(method, "/", params={"status": status}) as response:
            received.append((response.status, await response.read(), dict(response.headers)))
    (_, _, plain), (_, _, with_signal) = received
    assert (
        received[0][:2]
        == received[1][:2]
        == (status, b"{}" if (method, status) == ("GET", 200) else b"")
    )
    assert seen == [(with_signal["X-Request-ID"], '"x"')]
    assert with_signal.pop("X-Extension") == "1"
    assert {name.lower() for name in plain} == {name.lower() for name in with_signal}
    same = plain.keys() - {"X-Request-ID", "Date"}
    assert {name: plain[name] for name in same} == {name: with_signal[name] for name in same}


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
