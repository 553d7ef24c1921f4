"""Clients that do not read: what a connection buffers, and how long it waits."""

import asyncio
import logging
import socket
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest
from aiohttp import web

from registry.http.sending import MAX_WRITE, WaitingBytes
from registry.jsonapi.error_types import Overloaded
from tests.http.conftest import (
    GET,
    PATIENT_LIMITS,
    SECONDS,
    SLOW_READERS,
    Start,
    connected,
    endless,
)
from tests.waiting import eventually

BODY = bytes(50_000)
SLOW_READER = "A client has not read a part of its response in 0.5 s"


async def receive_all(opened: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(opened, 100_000):
        pass


async def test_one_response_is_buffered_for_a_client_that_does_not_read(start: Start) -> None:
    requests: list[web.Request] = []

    def is_full() -> bool:
        transport = requests[-1].transport if requests else None
        return bool(transport and transport.get_write_buffer_size() and not transport.is_reading())

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return web.Response(body=BODY)

    client = await start(handle)
    with connected(client.port or 0) as opened:
        await asyncio.get_running_loop().sock_sendall(opened, 1_000 * GET)
        assert await eventually(is_full)
        assert len(requests) < 1_000
        transport = requests[-1].transport
        assert transport
        assert transport.get_write_buffer_size() < 2 * len(BODY)


@pytest.mark.slow
async def test_a_client_that_reads_slowly_gets_its_whole_response(start: Start) -> None:
    size, limits = 8_000_000, replace(PATIENT_LIMITS, send_seconds=6.0)

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=bytes(size))

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


async def test_a_client_that_does_not_read_or_reads_too_slowly_is_cut(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for part in (0, len(BODY) // 20):
        caplog.clear()
        client, loop = await start(endless, SLOW_READERS), asyncio.get_running_loop()
        with connected(client.port or 0) as opened:
            await loop.sock_sendall(opened, GET)
            async with asyncio.timeout(SECONDS):
                with suppress(ConnectionResetError):
                    while SLOW_READER not in caplog.text:
                        if part:
                            await loop.sock_recv(opened, part)
                        await asyncio.sleep(SLOW_READERS.send_seconds / 5)
            if not part:
                with pytest.raises(ConnectionResetError):
                    await asyncio.wait_for(receive_all(opened), SECONDS)
        assert SLOW_READER in caplog.text


async def test_large_bodies_that_wait_for_slow_clients_are_limited(start: Start) -> None:
    size = 20_000_000  # more than the kernel buffers
    plain = {"Accept-Encoding": "identity"}
    requests: list[web.Request] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append(request)
        return web.Response(body=bytes(size))

    client = await start(handle, replace(PATIENT_LIMITS, waiting_bytes=size))
    with connected(client.port or 0) as opened:
        await asyncio.get_running_loop().sock_sendall(opened, GET)
        assert await eventually(lambda: requests and requests[0].writer.output_size)
        async with client.get("/", headers=plain) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "5")
            assert "have reached the limit" in await response.text()
    assert await eventually(lambda: requests[0].transport is None)
    async with client.get("/", headers=plain) as response:
        assert len(await response.read()) == size


def test_waiting_bytes_are_counted_in_total_and_per_client() -> None:
    waiting = WaitingBytes(100)
    with waiting.reserved("a", 200), pytest.raises(Overloaded, match="limit of 100 bytes"):
        waiting.reserved("b", 1).__enter__()
    with ExitStack() as bodies:
        for client, size in (("a", 40), ("b", 40), ("a", 10), ("c", 10)):
            bodies.enter_context(waiting.reserved(client, size))
        with pytest.raises(Overloaded, match="limit of 100 bytes"):
            waiting.reserved("d", 1).__enter__()
    with waiting.reserved("a", 40), pytest.raises(Overloaded, match="50 bytes for this address"):
        waiting.reserved("a", 11).__enter__()
