"""Exceptions of middlewares and views become error documents, and disconnects stay silent."""

import asyncio
import logging
from asyncio import StreamWriter
from collections.abc import Callable

import pytest
from aiohttp import ClientError, web
from aiohttp.typedefs import Handler

from registry.http.checks import defer_continue
from tests.http.conftest import SECONDS, Start, StartApp, echo, exchange, new_app, read_all
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


async def test_an_http_exception_keeps_its_status_and_headers(start: Start) -> None:
    for kind, headers, status, code in (
        (web.HTTPUnauthorized, LOGIN, 401, "unauthorized"),
        (web.HTTPForbidden, {}, 403, "forbidden"),
        (web.HTTPTooManyRequests, RETRY, 429, "too_many_requests"),
        (web.HTTPServiceUnavailable, RETRY, 503, "service_unavailable"),
        (web.HTTPInternalServerError, {}, 500, "internal_server_error"),
    ):
        client = await start(raising(kind(headers=headers)))
        async with client.get("/") as response:
            assert response.status == status
            assert response.headers.getall("Content-Type") == [MEDIA_TYPE]
            assert response.headers.items() >= headers.items()
            (described,) = (await response.json(content_type=MEDIA_TYPE))["errors"]
        assert (described["status"], described["code"]) == (str(status), code)
        assert described["id"] == response.headers["X-Request-ID"]


async def test_any_other_exception_is_an_internal_error(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in (RuntimeError, TimeoutError, ConnectionRefusedError):
        caplog.clear()
        async with (await start(raising(kind("a secret")))).get("/") as response:
            assert response.status == 500
            text = await response.text()
        assert '"code":"internal_error"' in text
        assert "secret" not in text
        (record,) = errors_logged(caplog)
        assert response.headers["X-Request-ID"] in record.getMessage()
        assert "a secret" in caplog.text


async def test_only_the_expectation_100_continue_is_met(start_app: StartApp) -> None:
    app = new_app(echo)
    app.router.add_post("/resource", echo, expect_handler=defer_continue)
    client = await start_app(app)
    for expectation, path, status in (
        *[("100-continue", "/", 200), ("100-continue", "/nothing", 404)],
        *[("a miracle", "/resource", 417), ("a miracle", "/nothing", 417)],
    ):
        async with client.post(path, headers={"Expect": expectation}, data=b"x") as response:
            assert response.status == status
            assert path != "/resource" or response.content_type == MEDIA_TYPE


async def test_an_error_after_a_stream_has_begun_is_logged_and_resets_the_connection(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"part")
        raise RuntimeError("in the middle")

    client = await start(break_off)
    with pytest.raises(ClientError):
        async with client.get("/") as response:
            await response.read()
    (record,) = errors_logged(caplog)
    assert "internal_error" not in record.getMessage()
    assert "in the middle" in caplog.text
    # Without chunks, only a reset distinguishes it from a whole response.
    with pytest.raises(ConnectionResetError):
        await exchange(client, b"GET / HTTP/1.0\r\nHost: h\r\n\r\n")


@pytest.mark.parametrize("leave", [StreamWriter.close, StreamWriter.write_eof])
async def test_a_disconnect_ends_the_request_and_is_not_logged(
    leave: Callable[[StreamWriter], None], start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        begun.set()
        try:
            return await echo(request)
        finally:
            ended.set()

    client = await start(handler)
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
    await asyncio.wait_for(begun.wait(), SECONDS)
    assert not ended.is_set()
    leave(writer)
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert await read_all(reader) == b""
    assert not errors_logged(caplog)
    writer.close()


async def test_cancelled_handlers_leave_no_log(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise asyncio.CancelledError

    assert await exchange(await start(handler), GET) == b""
    assert not errors_logged(caplog)
