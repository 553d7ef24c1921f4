"""The limit on the header fields of a request, and on the trailers of its body."""

import asyncio
from contextlib import suppress

import pytest
from aiohttp import web

from registry.http.addresses import query_of
from registry.http.app_keys import Limits
from tests.http.conftest import SECONDS, Start, echo, exchange
from tests.support import Client, traced_memory

LIMITS = Limits(arrival_seconds=60.0, linger_seconds=0.5)

GET = b"GET / HTTP/1.1\r\nHost: h\r\n"
TRAILERS = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
LAST_GET = GET + b"Connection: close\r\n"

MOST = b"".join([b"X-%d: %s\r\n" % (number, bytes([97]) * 8_000) for number in range(120)])
"""Fields of nearly as many bytes as aiohttp accepts, 1 MB."""

MOST_MEMORY = 2**19
"""Bytes in use per connection, of both ends; fields at the limit take 2**18 in the service."""


def fields(size: int) -> bytes:
    """Return fields of so many bytes, each smaller than the limit on one."""
    lines = [b"X: %s\r\n" % (b"a" * 1_019)] * (size // 1_024)
    return b"".join([*lines, b"Y: %s\r\n" % (b"a" * (size % 1_024 - 5))])


def status_lines(received: bytes) -> list[bytes]:
    return [line for line in received.split(b"\r\n") if line.startswith(b"HTTP/1.")]


async def test_many_large_fields_are_accepted_besides_a_long_target(start: Start) -> None:
    head = b"GET /?%s HTTP/1.1\r\n" % (b"a" * 100_000)
    sent = b"Host: h\r\nConnection: close\r\n"
    client = await start(echo, LIMITS)
    accepted = await exchange(client, head + sent + fields(80_000) + b"\r\n")
    assert status_lines(accepted) == [b"HTTP/1.1 200 OK"]


@pytest.mark.parametrize("before", [b"", b"\r\n", GET + b"\r\n"], ids=["", "line", "request"])
async def test_a_head_that_is_far_too_large_ends_the_connection(
    before: bytes, start: Start
) -> None:
    client = await start(echo, LIMITS)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    for part in (before + GET, MOST[:100_000], MOST[100_000:200_000]):
        writer.write(part)
        await asyncio.sleep(0.05)
    received = await asyncio.wait_for(reader.read(), SECONDS)
    writer.close()
    assert status_lines(received) == [b"HTTP/1.1 200 OK"] * before.count(b"GET")


async def test_long_targets_and_earlier_requests_are_not_counted(start: Start) -> None:
    client = await start(echo, LIMITS)
    end = b" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
    received = await exchange(client, b"GET /?", *[b"a" * 30_000] * 4, end)
    assert status_lines(received) == [b"HTTP/1.1 200 OK"]
    rest = fields(30_000) + b"\r\n"
    received = await exchange(client, (GET + rest) * 4 + LAST_GET + rest)
    assert status_lines(received) == [b"HTTP/1.1 200 OK"] * 5


@pytest.mark.slow
@pytest.mark.parametrize("before", [GET, GET + b"\r\n" + GET, TRAILERS])
async def test_endless_heads_take_little_memory(start: Start, before: bytes) -> None:
    client = await start(echo, Limits(arrival_seconds=60.0, linger_seconds=60.0))
    assert await memory_for(client, before + MOST) < 20 * MOST_MEMORY


async def memory_for(client: Client, sent: bytes) -> int:
    """Return the memory in use while 20 connections have sent something."""
    with traced_memory() as size:
        streams = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(20)]
        for _, writer in streams:
            writer.write(sent)
        await asyncio.sleep(1)  # in which all of it arrives
        result = size()
    for _, writer in streams:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    return result


@pytest.mark.slow
async def test_the_parameters_of_long_targets_are_not_kept(start: Start) -> None:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(text=str(len(query_of(request))))

    client = await start(respond)
    with traced_memory() as size:
        for number in range(20):
            target = b"/?x%d%s" % (number, b"&a" * 50_000)
            received = await exchange(client, LAST_GET.replace(b"/", target, 1) + b"\r\n")
            assert received.endswith(b"50001")
        assert size() < 2**23  # yarl keeps the text of 128 targets, of 128 KiB at most
