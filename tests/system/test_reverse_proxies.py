"""Reverse proxies in front of the service: nginx and Caddy with the configurations in docs/."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from registry.settings import Settings
from tests.certificates import Authority
from tests.conftest import Serve
from tests.programs import required_program
from tests.support import MEDIA_TYPE, PERSON, Api
from tests.system.service import ROOT, TIMEOUT

NAME = "registry.example.com"

NGINX = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
events {{}}
http {{
    client_body_temp_path {directory}/bodies;
    proxy_temp_path {directory}/responses;
    include {directory}/registry.conf;
}}
"""
"""What Debian's nginx.conf says around the configuration, for a process without privileges."""

Request = Callable[..., AbstractAsyncContextManager[aiohttp.ClientResponse]]

Start = Callable[[int], Awaitable[Request]]


def nginx(directory: Path, port: int, upstream: int) -> list[str]:
    """Write the configuration of nginx; return its command."""
    text = (ROOT / "docs" / "nginx.conf").read_text()
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}").replace("listen [::]:443", "#")
    text = re.sub(r"/etc/ssl/registry|/var/log/nginx", str(directory), text)
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    (directory / "registry.conf").write_text(text)
    (directory / "nginx.conf").write_text(NGINX.format(directory=directory))
    return [required_program("nginx"), "-p", str(directory), "-c", "nginx.conf", "-e", "error.log"]


def caddy(directory: Path, port: int, upstream: int) -> list[str]:
    """Write the configuration of Caddy; return its command."""
    certificate = f"tls {directory}/fullchain.pem {directory}/privkey.pem"
    text = (ROOT / "docs" / "Caddyfile").read_text()
    text = text.replace("{\n", "{\n\tadmin off\n", 1)
    text = text.replace(f"{NAME} {{", f"{NAME}:{port} {{\n\tbind 127.0.0.1\n\t{certificate}")
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{upstream}")
    (directory / "Caddyfile").write_text(text)
    return [required_program("caddy"), "run", "--config", str(directory / "Caddyfile")]


@pytest.fixture(params=[nginx, caddy])
async def start(
    request: pytest.FixtureRequest, tmp_path: Path, unused_tcp_port: int
) -> AsyncIterator[Start]:
    """A function that starts a reverse proxy for the service on a port.

    It returns one that sends requests to the proxy, as `ClientSession.request` does.
    """
    authority = Authority(tmp_path)
    certificate, key, _ = authority.issue("proxy", NAME)
    certificate.rename(tmp_path / "fullchain.pem")
    key.rename(tmp_path / "privkey.pem")
    async with AsyncExitStack() as stack:

        async def start(upstream: int) -> Request:
            command = request.param(tmp_path, unused_tcp_port, upstream)
            await stack.enter_async_context(running(command, tmp_path, unused_tcp_port))
            session = aiohttp.ClientSession(
                f"https://127.0.0.1:{unused_tcp_port}",
                connector=aiohttp.TCPConnector(ssl=authority.client_context()),
                headers={"Host": NAME},
            )
            await stack.enter_async_context(session)
            return partial(session.request, server_hostname=NAME)

        yield start


@asynccontextmanager
async def running(command: list[str], directory: Path, port: int) -> AsyncIterator[None]:
    """Run a reverse proxy until the end of the context."""
    environment = {**os.environ, "HOME": str(directory), "XDG_DATA_HOME": str(directory)}
    with (directory / "output").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=output, stderr=output
        )
    try:
        async with asyncio.timeout(TIMEOUT):
            while not await accepts(port):
                assert process.returncode is None, (directory / "output").read_text()
                await asyncio.sleep(0.01)
        yield
    finally:
        process.kill()
        await process.wait()


async def accepts(port: int) -> bool:
    """Return whether a server listens on a port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@asynccontextmanager
async def upstream(
    respond: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[int]:
    """Serve a handler in place of the service; return the port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    async with TestServer(app) as server:
        assert server.port
        yield server.port


@pytest.fixture
async def public(serve: Serve, settings: Settings) -> Api:
    """The service under its public URL."""
    return await serve(settings=replace(settings, public_url=f"https://{NAME}"))


async def test_requests_keep_their_origin_and_metrics_are_not_passed_on(
    start: Start,
) -> None:
    seen: list[web.Request] = []

    async def respond(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response()

    async with upstream(respond) as port:
        request = await start(port)
        forged = {
            "X-Forwarded-For": "203.0.113.9",
            "X-Forwarded-Proto": "http",
            "X-Forwarded-Host": "attacker.example.com",
        }
        async with request("GET", "/persons", headers={"Authorization": "Bearer t", **forged}):
            headers = seen[0].headers
        async with request("GET", "/metrics") as response:
            assert response.status == 404
        assert len(seen) == 1
    assert {name: headers.getall(name) for name in forged} == {
        "X-Forwarded-For": ["127.0.0.1"],
        "X-Forwarded-Proto": ["https"],
        "X-Forwarded-Host": [NAME],
    }
    assert headers["Host"] == NAME
    assert headers["Authorization"] == "Bearer t"


async def test_a_collection_arrives_while_it_is_sent(start: Start) -> None:
    has_arrived = asyncio.Event()

    async def respond(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": MEDIA_TYPE})
        await response.prepare(request)
        await response.write(b'{"data": [')
        await has_arrived.wait()
        await response.write(b"]}")
        return response

    async with upstream(respond) as port:
        request = await start(port)
        async with asyncio.timeout(TIMEOUT), request("GET", "/persons") as response:
            assert await response.content.readany() == b'{"data": ['
            has_arrived.set()
            assert await response.read() == b"]}"


async def test_clients_read_and_write_under_the_public_url(public: Api, start: Start) -> None:
    assert public.client.port
    request = await start(public.client.port)
    body = orjson.dumps({"data": PERSON})
    headers = {"Content-Type": MEDIA_TYPE}
    for _ in range(3):
        async with request("POST", "/persons", headers=headers, data=body) as response:
            assert response.status == 201
    query = "/persons?fields[person]=email&sort=-id"
    async with request("GET", query) as response:
        document = await response.json(content_type=MEDIA_TYPE)
    async with public.client.get(query) as response:
        direct = await response.json(content_type=MEDIA_TYPE)

    assert document == direct
    assert len(document["data"]) == 3
    assert document["links"]["self"].startswith(f"https://{NAME}/persons?")


async def test_errors_of_the_service_reach_the_client(public: Api, start: Start) -> None:
    assert public.client.port
    request = await start(public.client.port)
    headers = {"Content-Type": MEDIA_TYPE}
    body = BytesIO(b" " * (2**20 + 1))
    long_query = "/persons?page[after]=" + "a" * 100_000
    for sent, status in (
        (request("POST", "/persons", headers=headers, data=body), 413),
        (request("GET", long_query), 400),
    ):
        async with sent as response:
            assert (response.status, response.content_type) == (status, MEDIA_TYPE)
