"""Applications without a database, on the server of the service."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest
import uvloop
from aiohttp import web
from aiohttp.typedefs import Handler
from pytest_aiohttp.plugin import AiohttpClient

from registry.http.app_keys import LIMITS, Limits
from registry.http.application import new_application
from registry.http.server import Runner
from registry.settings import Settings
from tests.servers import Server
from tests.support import Client

StartApp = Callable[[web.Application], Awaitable[Client]]
Start = Callable[..., Awaitable[Client]]

PATIENT_LIMITS = Limits(arrival_seconds=60.0, linger_seconds=0.3, stop_idle_seconds=0.3)
"""A busy machine may be slow where a limit is not what is tested."""

SHORT_LIMITS = replace(PATIENT_LIMITS, arrival_seconds=0.3, idle_seconds=0.5)
"""For clients that send too slowly."""

SLOW_READERS = replace(PATIENT_LIMITS, send_seconds=0.5)
"""For clients that read too slowly; what they send has all the time."""

LONG_LIMITS = replace(PATIENT_LIMITS, stop_idle_seconds=60.0)
"""For connections that are used again while the server stops."""

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"

LAST_GET = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

SECONDS = 60.0
"""For what takes a few milliseconds on an idle machine."""


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run these tests on the event loop of the service: its transports differ from asyncio's."""
    return {"uvloop": uvloop.new_event_loop}


def new_runner(app: web.Application) -> Runner:
    """Return a runner whose stop does not end before idle connections are closed."""
    return Runner(app, shutdown_timeout=max(1.0, app[LIMITS].stop_idle_seconds), access_log=True)


class Gate:
    """Handlers that finish their response once it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self._open = asyncio.Event()

    def open(self) -> None:
        self._open.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.entered.set()
        await self._open.wait()
        return web.Response(text=request.method)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun")
        self.entered.set()
        await self._open.wait()
        await response.write_eof()
        return response


async def echo(request: web.Request) -> web.Response:
    """Respond with the body, or with 400 if its encoding is broken."""
    try:
        return web.Response(body=await request.read())
    except web.RequestPayloadError:
        return web.Response(status=400, text="broken")


async def endless(request: web.Request) -> web.StreamResponse:
    """Respond without an end."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(bytes(50_000))


SETTINGS = Settings(allowed_host=("h",))


def new_app(
    handler: Handler,
    path: str = "/",
    limits: Limits = PATIENT_LIMITS,
    settings: Settings = SETTINGS,
) -> web.Application:
    """Return an application whose only route, any method at the path, has this handler."""
    app = new_application(replace(settings, auth="off"), limits)
    app.router.add_route("*", path, handler)
    return app


@pytest.fixture
def start_app(aiohttp_client: AiohttpClient) -> StartApp:
    """Serve an application on the runner of the service until the test ends."""
    return lambda app: aiohttp_client(Server(app, new_runner))


@pytest.fixture
def start(start_app: StartApp) -> Start:
    """Serve a handler until the test ends."""
    return lambda handler, limits=PATIENT_LIMITS: start_app(new_app(handler, limits=limits))


def connected(port: int) -> socket.socket:
    """Return a connected socket that buffers little."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect(("127.0.0.1", port))
    opened.setblocking(False)
    return opened


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the end of a connection."""
    async with asyncio.timeout(SECONDS):
        return await reader.read()


async def exchange(client: Client, *parts: bytes) -> bytes:
    """Send the parts of a request with pauses; return what comes back until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    for number, part in enumerate(parts):
        if number:
            await asyncio.sleep(0.05)
        writer.write(part)
    received = await read_all(reader)
    writer.close()
    return received
