"""What clients send over a connection: heads and bodies that are late, malformed or too large."""

import asyncio
import io
import logging
from contextlib import suppress
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from pytest_aiohttp.plugin import AiohttpClient

from tests.http.conftest import (
    GET,
    LAST_GET,
    PATIENT_LIMITS,
    SECONDS,
    SHORT_LIMITS,
    Gate,
    Start,
    echo,
    exchange,
    read_all,
)
from tests.waiting import eventually

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


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET /?name=secret\0 HTTP/1.1\r\nHost: h\r\n\r\n"],
        [b"GET / HTTP/1.1\r\nAuthorization: secret" + b"x" * 10_000],
        [b"GET / HTTP/1.1\r\nAuthorization: sec", b"ret" + b"x" * 10_000],
        [b"GET / HTTP/1.1\r\nAuthorization: secret\0\r\n\r\n"],
    ],
    ids=["target", "header", "header in two parts", "control character"],
)
async def test_the_log_does_not_quote_malformed_http(
    parts: list[bytes], start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "registry")
    received = await exchange(await start(echo), *parts)
    assert received.startswith(b"HTTP/1.0 400 ")
    assert "status=400" in caplog.text
    assert "secret" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("version", [" HTTP/0.9", " HTTP/2.0", ""])
async def test_other_versions_of_http_are_refused(start: Start, version: str) -> None:
    client = await start(echo)
    received = await exchange(client, f"GET /{version}\r\nHost: h\r\n\r\n".encode())
    assert received.split(b" ", 2)[1] == b"400"


async def test_options_of_the_server_as_a_whole_are_answered(start: Start) -> None:
    received = await exchange(await start(echo), b"OPTIONS *" + LAST_GET.removeprefix(b"GET /"))
    assert received.startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize("before", [b"", GET])
@pytest.mark.parametrize("head", [b"", b"GET /per", b"GET / HTTP/1.1\r\nHost: h\r\n"])
async def test_a_head_that_is_too_late_ends_the_connection(
    start: Start, before: bytes, head: bytes
) -> None:
    client = await start(echo, SHORT_LIMITS)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    if before:
        writer.write(before)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.write(head)
    with suppress(ConnectionResetError):  # if the head, too, comes after the end
        assert await read_all(reader) == b""
    writer.close()


@pytest.mark.slow
async def test_the_time_of_a_head_begins_again_with_each_request(start: Start) -> None:
    client = await start(echo, replace(PATIENT_LIMITS, idle_seconds=6.0))
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    for _ in range(10):  # longer than the time limit, unlike each request
        await asyncio.sleep(0.6)
        writer.write(GET[:10])
        await asyncio.sleep(0.1)
        writer.write(GET[10:])
        assert await reader.readuntil(b"\r\n\r\n")
    writer.close()


@pytest.mark.parametrize(
    "rest",
    [b"1;" + b"x" * 1_000_000, b"0\r\nX: y\r\n" * 150_000, b"0\r\nX: " + b"y" * 1_000_000],
    ids=["extension", "trailers", "trailer"],
)
async def test_a_body_that_is_little_but_framing_ends_the_connection(
    start: Start, rest: bytes
) -> None:
    client = await start(echo)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(CHUNKED + b"2\r\n{}\r\n" + rest)
    with suppress(ConnectionResetError):
        assert b"200 OK" not in await read_all(reader)
    writer.close()


async def test_a_body_in_chunks_of_one_byte_is_received(start: Start) -> None:
    body = 100_000 * b"1\r\nx\r\n"
    received = await exchange(await start(echo), CHUNKED + body + b"0\r\n\r\n")
    assert received.endswith(100_000 * b"x")


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
        assert await eventually(lambda: request.content.total_bytes > 2**17)
        await asyncio.sleep(0.2)  # in which all of it would arrive
        received.append(request.content.total_bytes)
        return web.Response(body=await request.read())

    body = bytes(1_000_000)
    client = await start(wait)
    async with client.post("/", data=io.BytesIO(body)) as response:
        assert await response.read() == body
    assert received[0] <= 2**17 + 256_000


@pytest.mark.parametrize(("padding", "count"), [(8_000, 30), (0, 1_000)])
async def test_requests_sent_far_ahead_of_a_response_are_not_read(
    start: Start, padding: int, count: int
) -> None:
    requests: list[web.Request] = []
    gate = Gate()

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return await gate.handle(request)

    client = await start(handle)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(GET)
    await gate.entered.wait()
    transport = requests[0].transport
    assert transport
    assert transport.is_reading()  # to notice that the client disconnects
    writer.write(count * (GET[:-2] + b"X: " + b"a" * padding + b"\r\n\r\n"))
    assert await eventually(lambda: not transport.is_reading())
    gate.open()
    for _ in range(count + 1):
        assert await reader.readuntil(b"GET")
    assert len(requests) == count + 1
    assert await eventually(transport.is_reading)
    writer.close()


@pytest.mark.parametrize("size", [2**20 + 1, 2**22])
async def test_a_rejected_body_does_not_cost_its_response(start: Start, size: int) -> None:
    """The rest of it is discarded while the client sends it."""

    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=413)

    client = await start(refuse)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(POST + b"Content-Length: %d\r\n\r\n" % size + bytes(size))
    await writer.drain()
    assert (await read_all(reader)).startswith(b"HTTP/1.1 413 ")
    writer.close()


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
    received = await exchange(await aiohttp_client(app), TRAILER + LAST_GET)
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert received.endswith(b"injected")


@pytest.mark.parametrize("handler", [said, stream])
async def test_a_client_of_http_1_0_knows_the_end_of_a_response(
    start: Start, handler: Handler
) -> None:
    client = await start(handler)
    request = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    last = b"GET / HTTP/1.0\r\n\r\n"
    received = await exchange(client, request + last)
    assert received.count(b"HTTP/1.0 200 OK\r\n") == (1 if handler is stream else 2)
    assert (b"Connection: keep-alive" in received) is (handler is said)
