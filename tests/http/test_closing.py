"""How connections end: after the responses to all requests that have arrived on them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

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
    eventually,
    read_all,
)
from tests.support import Client

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


@pytest.mark.parametrize(("handle", "end"), [(Gate.handle, b"GET"), (Gate.stream, b"0\r\n\r\n")])
async def test_a_half_closed_connection_gets_its_response_and_nothing_else(
    start: Start, connect: Connect, handle: Callable[..., Any], end: bytes
) -> None:
    gate = Gate()
    reader, writer = await connect(await start(partial(handle, gate)))
    writer.write(GET)
    await gate.entered.wait()
    writer.write_eof()
    await asyncio.sleep(0.6)
    gate.open()
    received = await read_all(reader)
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert (CLOSE in received) is (handle is Gate.handle)
    assert received.endswith(end)


async def test_a_half_closed_connection_gets_all_responses(start: Start, connect: Connect) -> None:
    reader, writer = await connect(await start(echo))
    writer.write(3 * (POST + b"body"))
    writer.write_eof()
    assert (await read_all(reader)).count(b"HTTP/1.1 200 OK\r\n") == 3


@pytest.mark.parametrize("before", [b"", POST + b"body"])
@pytest.mark.parametrize("part", [b"", b"GET / HT", POST + b"bo"])
async def test_a_request_that_is_half_closed_before_its_end_gets_no_response(
    before: bytes, part: bytes, start: Start, connect: Connect
) -> None:
    reader, writer = await connect(await start(echo))
    writer.write(before + part)
    writer.write_eof()
    assert (await read_all(reader)).count(b"HTTP/1.1 ") == bool(before)


@pytest.mark.parametrize("number", [1, 3])
async def test_pipelined_requests_are_all_answered_while_the_server_stops(
    start: Start, connect: Connect, number: int
) -> None:
    gate = Gate()
    client = await start(gate.handle, LONG_LIMITS)
    reader, writer = await connect(client)
    writer.write(number * GET)
    await gate.entered.wait()
    stopping = stop(client)
    await asyncio.sleep(0.1)
    gate.open()
    received = await read_all(reader)
    assert received.count(b"HTTP/1.1 200 OK\r\n") == number
    assert received.index(CLOSE) > received.rindex(b"HTTP/1.1 200")
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


async def test_the_end_of_a_closed_connection_is_noticed_with_its_response(
    start: Start, connect: Connect
) -> None:
    """Until the service writes, it is indistinguishable from one that is half-closed."""
    gate, requests = Gate(), list[web.Request]()

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return await gate.handle(request)

    _, writer = await connect(await start(handle))
    writer.write(GET)
    await gate.entered.wait()
    writer.close()
    gate.open()
    await eventually(lambda: requests[0].transport is None)


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
