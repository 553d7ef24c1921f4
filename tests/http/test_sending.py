"""Clients that do not read: what a connection buffers, and how long it waits."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from aiohttp import web

from registry.http.responses import MAX_WRITE, DocumentResponse
from tests.http.conftest import PATIENT_LIMITS, SECONDS, SHORT_LIMITS, Client, Start, eventually

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
BODY = bytes(50_000)
SLOW_READER = "A client has not read a part of its response in 0.5 s"


@asynccontextmanager
async def connection(client: Client) -> AsyncIterator[socket.socket]:
    """Open a connection whose client buffers little."""
    with socket.socket() as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", client.port or 0))
        yield opened


async def test_one_response_is_buffered_for_a_client_that_does_not_read(start: Start) -> None:
    requests: list[web.Request] = []

    def is_full() -> bool:
        transport = requests[-1].transport if requests else None
        return bool(transport and transport.get_write_buffer_size() and not transport.is_reading())

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return DocumentResponse(200, BODY, {})

    client = await start(handle)
    async with connection(client) as opened:
        await asyncio.get_running_loop().sock_sendall(opened, 1_000 * GET)
        await eventually(is_full)
        assert len(requests) < 1_000
        transport = requests[-1].transport
        assert transport
        assert transport.get_write_buffer_size() < 2 * len(BODY)


async def test_requests_are_not_read_while_others_of_the_connection_wait(start: Start) -> None:
    requests: list[web.Request] = []
    gate = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        await gate.wait()
        return web.Response()

    client = await start(handle)
    async with connection(client) as opened:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(opened, GET)
        await eventually(lambda: requests)
        transport = requests[0].transport
        assert transport
        assert transport.is_reading()  # to notice that the client disconnects
        await loop.sock_sendall(opened, 2 * GET)
        await eventually(lambda: not transport.is_reading())
        await loop.sock_sendall(opened, 2 * GET)
        gate.set()
        await eventually(lambda: len(requests) == 5)
        await eventually(transport.is_reading)


async def test_a_client_that_does_not_read_is_cut(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    ended = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(BODY)
        finally:
            ended.set()

    caplog.set_level(logging.INFO)
    client = await start(handle, SHORT_LIMITS)
    async with connection(client) as opened:
        await asyncio.get_running_loop().sock_sendall(opened, GET)
        await asyncio.wait_for(ended.wait(), SECONDS)
        opened.setblocking(True)
        with pytest.raises(ConnectionResetError):
            list(iter(partial(opened.recv, 100_000), b""))
    assert SLOW_READER in caplog.text


async def test_a_client_that_reads_slowly_gets_its_whole_response(start: Start) -> None:
    size, limits = 8_000_000, replace(PATIENT_LIMITS, send_seconds=2.0)

    async def handle(_: web.Request) -> web.StreamResponse:
        return DocumentResponse(200, bytes(size), {})

    received = 0
    client = await start(handle, limits)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port, limit=2**12)
    writer.write(GET)
    for _ in range(50):  # longer than the time limit, unlike each part
        received += len(await reader.readexactly(MAX_WRITE // 4))
        await asyncio.sleep(limits.send_seconds / 40)
    while received < size and (part := await reader.read(1_000_000)):
        received += len(part)
    writer.close()
    assert received >= size


async def test_a_client_that_reads_a_part_of_a_stream_too_slowly_is_disconnected(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(BODY)

    caplog.set_level(logging.INFO)
    client = await start(handle, SHORT_LIMITS)
    async with connection(client) as opened, asyncio.timeout(SECONDS):
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(opened, GET)
        with suppress(ConnectionResetError):
            while True:
                await loop.sock_recv(opened, len(BODY) // 20)
                await asyncio.sleep(SHORT_LIMITS.send_seconds / 5)
    assert SLOW_READER in caplog.text
