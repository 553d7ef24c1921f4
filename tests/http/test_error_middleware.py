"""Exceptions of middlewares and views become error documents, and disconnects stay silent."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from aiohttp import ClientError, web
from aiohttp.typedefs import Handler

from tests.http.conftest import SECONDS, Start, exchange
from tests.support import MEDIA_TYPE

GET = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

LOGIN = {"WWW-Authenticate": 'Basic realm="registry"'}
RETRY = {"Retry-After": "7"}


def raising(error: Exception) -> Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise error

    return handler


def errors_logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("kind", "options", "status", "code"),
    [
        (web.HTTPUnauthorized, {"headers": LOGIN}, 401, "unauthorized"),
        (web.HTTPForbidden, {}, 403, "forbidden"),
        (web.HTTPTooManyRequests, {"headers": RETRY}, 429, "too_many_requests"),
        (web.HTTPServiceUnavailable, {"headers": RETRY}, 503, "service_unavailable"),
        (web.HTTPInternalServerError, {}, 500, "internal_server_error"),
    ],
)
async def test_an_http_exception_keeps_its_status_and_headers(
    start: Start, kind: type[web.HTTPException], options: Any, status: int, code: str
) -> None:
    error = kind(**options)
    error.set_cookie("session", "gone")
    client = await start(raising(error))
    async with client.get("/") as response:
        assert response.status == status
        assert response.headers.getall("Content-Type") == [MEDIA_TYPE]
        assert response.headers.items() >= options.get("headers", {}).items()
        assert response.cookies["session"].value == "gone"
        (described,) = (await response.json(content_type=MEDIA_TYPE))["errors"]
    assert (described["status"], described["code"]) == (str(status), code)
    assert described["id"] == response.headers["X-Request-ID"]


@pytest.mark.parametrize("kind", [RuntimeError, TimeoutError, ConnectionRefusedError])
async def test_any_other_exception_is_an_internal_error(
    start: Start, caplog: pytest.LogCaptureFixture, kind: type[Exception]
) -> None:
    client = await start(raising(kind("a secret")))
    async with client.get("/") as response:
        assert response.status == 500
        text = await response.text()
    assert '"code":"internal_error"' in text
    assert "secret" not in text
    (record,) = errors_logged(caplog)
    assert response.headers["X-Request-ID"] in record.getMessage()
    assert "a secret" in caplog.text


@pytest.mark.parametrize("expectation", ["a miracle", "100-continue"])
async def test_only_the_expectation_100_continue_is_met(start: Start, expectation: str) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    client = await start(handler)
    expected = 200 if expectation == "100-continue" else 417
    async with client.post("/", headers={"Expect": expectation}, data=b"x") as response:
        assert response.status == expected
    async with client.post("/nothing", headers={"Expect": expectation}) as response:
        assert response.status == (404 if expected == 200 else 417)
        assert response.content_type == MEDIA_TYPE


async def break_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"part")
    raise RuntimeError("in the middle")


async def test_an_error_after_a_stream_has_begun_is_logged_and_resets_the_connection(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    client = await start(break_off)
    with pytest.raises(ClientError):
        async with client.get("/") as response:
            await response.read()
    (record,) = errors_logged(caplog)
    assert "internal_error" not in record.getMessage()
    assert "in the middle" in caplog.text


async def test_a_broken_response_to_http_1_0_is_not_taken_for_a_whole_one(start: Start) -> None:
    """Without chunks, only a reset distinguishes them."""
    client = await start(break_off)
    with pytest.raises(ConnectionResetError):
        await exchange(client, b"GET / HTTP/1.0\r\nHost: h\r\n\r\n")


async def test_a_disconnect_is_not_logged(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        try:
            return web.Response(body=await request.read())
        finally:
            ended.set()

    client = await start(handler)
    _, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
    await asyncio.sleep(0.1)
    assert not ended.is_set()
    writer.close()
    await asyncio.wait_for(ended.wait(), SECONDS)
    await asyncio.sleep(0)
    assert not errors_logged(caplog)


async def test_cancelled_handlers_leave_no_log(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise asyncio.CancelledError

    assert await exchange(await start(handler), GET) == b""
    assert not errors_logged(caplog)
