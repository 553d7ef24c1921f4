"""What the service does with private parts of aiohttp: each test fails if one of them changes."""

import ast
import asyncio
import inspect
import io
import logging

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from pytest_aiohttp.plugin import AiohttpClient

from registry.http import connection
from registry.http.connection import Connection
from tests.http.conftest import SECONDS, SHORT_LIMITS, Start, echo, eventually, exchange

POST = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


TRAILER = (
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\n{}\r\n0\r\nX-Said: injected\r\n\r\n"
)


async def said(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(text=request.headers.get("X-Said", "nothing"))


async def stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(str((await said(request)).text).encode())
    return response


def test_private_attributes_of_aiohttp_exist() -> None:
    tree = ast.parse(inspect.getsource(connection))
    names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    private = {name for name in names if name.startswith("_") and not name.startswith("__")}
    inherited = private - vars(Connection).keys()
    assert {"_current_request", "_waiter", "_messages"} <= inherited
    assert inherited <= set(dir(web.RequestHandler))


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /?name=secret" + b"x" * 200_000],
        [b"GET / HTTP/1.1\r\nAuthorization: secret" + b"x" * 10_000],
        [b"GET / HTTP/1.1\r\nAuthorization: sec", b"ret" + b"x" * 10_000],
        [b"GET / HTTP/1.1\r\nAuthorization: secret\0\r\n\r\n"],
    ],
    ids=["target", "header", "header in two parts", "control character"],
)
async def test_the_error_for_malformed_http_does_not_quote_it(
    parts: list[bytes], start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry")
    received = await exchange(await start(echo), *parts)
    assert received.startswith(b"HTTP/1.0 400 ")
    assert "not valid HTTP" in caplog.text
    assert "secret" not in received.decode() + caplog.text


@pytest.mark.parametrize("version", ["0.9", "2.0"])
async def test_other_versions_of_http_get_an_http_1_1_response(start: Start, version: str) -> None:
    client = await start(echo)
    received = await exchange(client, f"GET / HTTP/{version}\r\nHost: h\r\n\r\n".encode())
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close\r\n" in received.lower()


@pytest.mark.parametrize("before", [b"", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
@pytest.mark.parametrize("head", [b"GET /per", b"GET / HTTP/1.1\r\nHost: h\r\n"])
async def test_a_head_that_is_too_late_gets_408(start: Start, before: bytes, head: bytes) -> None:
    received = await exchange(await start(echo, SHORT_LIMITS), before, head)
    assert received.count(b"HTTP/1.1 ") == bool(before)
    assert b"HTTP/1.0 408 Request Timeout\r\n" in received
    assert b'"code":"request_timeout"' in received


async def test_a_body_that_breaks_its_encoding_fails_at_once(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the service, the view would wait for the rest of the body until its own timeout."""
    received = await exchange(await start(echo), CHUNKED + b"2\r\n{}\r\n", b"zz\r\n")
    assert received.startswith(b"HTTP/1.1 400 ")
    assert received.endswith(b"broken")
    assert received.count(b"HTTP/1.1") == 1

    async def ignore_body(request: web.Request) -> web.Response:
        await eventually(request.content.exception)
        return web.Response()

    received = await exchange(await start(ignore_body), CHUNKED + b"2\r\n{}\r\n", b"zz\r\n")
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_body_in_progress_is_received_while_the_server_stops(start: Start) -> None:
    client = await start(echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(POST + b"Content-Length: 4\r\n\r\n12")
    await asyncio.sleep(0.1)
    stopping = asyncio.create_task(client.close())
    await asyncio.sleep(0.1)
    assert not stopping.done()
    writer.write(b"34")
    received = await asyncio.wait_for(reader.read(), SECONDS)
    assert received.endswith(b"1234")
    writer.close()
    await stopping


async def test_a_body_that_nothing_reads_yet_takes_little_memory(start: Start) -> None:
    """aiohttp pauses reading when twice its buffer has arrived, at the next read of the loop."""
    received: list[int] = []

    async def wait(request: web.Request) -> web.Response:
        await eventually(lambda: request.content.total_bytes > 2**17)
        await asyncio.sleep(0.2)  # in which all of it would arrive
        received.append(request.content.total_bytes)
        return web.Response(body=await request.read())

    body = bytes(1_000_000)
    client = await start(wait)
    async with client.post("/", data=io.BytesIO(body)) as response:
        assert await response.read() == body
    assert received[0] <= 2**17 + 256_000


@pytest.mark.parametrize("handler", [said, stream])
async def test_a_trailer_does_not_reach_the_next_request(start: Start, handler: Handler) -> None:
    client = await start(handler)
    received = await exchange(client, TRAILER + b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 1
    assert b"connection: close\r\n" in received.lower()
    assert b"nothing" in received


async def test_aiohttp_takes_a_trailer_for_a_field_of_the_next_request(
    aiohttp_client: AiohttpClient,
) -> None:
    """Fails once aiohttp is fixed: connections then need not close after chunked bodies."""
    app = web.Application()
    app.router.add_route("*", "/", said)
    last = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    received = await exchange(await aiohttp_client(app), TRAILER + last)
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert received.endswith(b"injected")
