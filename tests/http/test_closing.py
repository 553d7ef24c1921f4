"""How connections end: after the responses to all requests that have arrived on them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from tests.http.conftest import (
    GET,
    LONG_LIMITS,
    SECONDS,
    Gate,
    Start,
    echo,
    endless,
    read_all,
)
from tests.support import Client
from tests.waiting import eventually

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[Client], Awaitable[Streams]]

POST = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"
CLOSE = b"\r\nConnection: close\r\n"


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Open a connection to a server."""
    writers: list[asyncio.StreamWriter] = []

    async def connect(client: Client) -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.close()


def stop(client: Client) -> asyncio.Task[None]:
    """Stop the server, as a signal does, but not the connections of the test."""
    return asyncio.create_task(client.server.close())


@pytest.mark.parametrize("part", [b"", b"GET / HT", POST + b"bo", GET])
async def test_a_half_closed_connection_is_closed(
    part: bytes, start: Start, connect: Connect
) -> None:
    gate = Gate()
    reader, writer = await connect(await start(gate.handle))
    writer.write(part)
    await asyncio.sleep(0.1)
    writer.write_eof()
    assert await read_all(reader) == b""


async def test_pipelined_requests_get_responses_in_their_order(
    start: Start, connect: Connect
) -> None:
    reader, writer = await connect(await start(echo))
    for body in (b"1st.", b"2nd.", b"3rd."):
        writer.write(POST + body)
    for body in (b"1st.", b"2nd.", b"3rd."):
        assert (await reader.readuntil(body)).count(b"HTTP/1.1 200 OK\r\n") == 1


async def test_the_response_to_a_request_in_progress_is_the_last_one_in_a_stop(
    start: Start, connect: Connect
) -> None:
    """A client that pipelines knows by `Connection: close` which requests to send again."""
    gate = Gate()
    client = await start(gate.handle, LONG_LIMITS)
    reader, writer = await connect(client)
    writer.write(3 * GET)
    await gate.entered.wait()
    stopping = stop(client)
    await asyncio.sleep(0.1)
    gate.open()
    received = await read_all(reader)
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 1
    assert CLOSE in received
    await stopping


async def test_a_stop_closes_unread_streams_and_unused_connections(
    start: Start, connect: Connect
) -> None:
    client = await start(endless)
    (unused, _), (reader, writer) = await connect(client), await connect(client)
    writer.write(GET)
    await asyncio.sleep(0.1)
    await stop(client)
    assert await read_all(unused) == b""
    with pytest.raises(ConnectionResetError):
        await read_all(reader)


async def test_a_connection_that_is_closed_at_once_is_not_kept(start: Start) -> None:
    client = await start(echo, LONG_LIMITS)
    with socket.create_connection(("127.0.0.1", client.port)):
        pass
    await asyncio.wait_for(stop(client), SECONDS)


async def test_an_idle_connection_gets_a_response_in_a_stop(start: Start, connect: Connect) -> None:
    client = await start(echo, LONG_LIMITS)
    reader, writer = await connect(client)
    writer.write(GET)
    await reader.readuntil(b"\r\n\r\n")
    stopping = stop(client)
    await asyncio.sleep(0.1)
    writer.write(POST + b"last")
    received = await read_all(reader)
    assert CLOSE in received
    assert received.endswith(b"last")
    await stopping


async def test_a_stream_that_ends_during_a_stop_is_not_the_last_response(
    start: Start, connect: Connect
) -> None:
    gate = Gate()
    client = await start(gate.stream, LONG_LIMITS)
    reader, writer = await connect(client)
    writer.write(GET)
    await gate.entered.wait()
    stopping = stop(client)
    await asyncio.sleep(0.1)
    gate.open()
    assert CLOSE not in await reader.readuntil(b"0\r\n\r\n")
    writer.write(GET)
    received = await read_all(reader)
    assert CLOSE in received
    assert received.endswith(b"0\r\n\r\n")
    await stopping


async def test_a_stop_under_load_loses_no_request(start: Start) -> None:
    async def handle(request: web.Request) -> web.Response:
        await asyncio.sleep(0.002)
        return await echo(request)

    client = await start(handle, LONG_LIMITS)
    answered = 0

    async def load() -> None:
        """Send requests, on a new connection after a response that closes it, until it fails."""
        nonlocal answered
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            except OSError:  # the server does not listen any more
                return
            head = b""
            while CLOSE not in head:
                writer.write(POST + b"body")
                head = await reader.readuntil(b"\r\n\r\n")
                assert await reader.readexactly(4) == b"body"
                answered += 1
            writer.close()

    loads = [asyncio.create_task(load()) for _ in range(20)]
    assert await eventually(lambda: answered > 200)
    await stop(client)
    await asyncio.wait_for(asyncio.gather(*loads), SECONDS)
