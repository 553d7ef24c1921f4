"""TLS: what holds for a connection without it holds with it, and its certificate can be renewed."""

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from trustme import KeyType

from registry.http.app_keys import Limits
from registry.http.server import Runner
from registry.http.tls import Certificate
from registry.program import StartError
from registry.settings import Settings
from tests.certificates import Authority
from tests.http.conftest import (
    GET,
    PATIENT_LIMITS,
    SECONDS,
    SHORT_LIMITS,
    SLOW_READERS,
    Gate,
    connected,
    endless,
    new_app,
    read_all,
)
from tests.waiting import eventually

LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Server:
    """A server with TLS. files: of its certificate and key. context: of a client that trusts it."""

    runner: Runner
    port: int
    files: tuple[Path, Path]
    certificate: Certificate
    context: ssl.SSLContext

    async def connect(self, sock: socket.socket | None = None) -> Streams:
        """Open a connection. sock: to use, which is connected."""
        target = {"sock": sock} if sock else {"host": "127.0.0.1", "port": self.port}
        options = {"ssl": self.context, "server_hostname": "localhost", "limit": 1_000}
        return await asyncio.open_connection(**target, **options)  # type: ignore[arg-type]


Start = Callable[..., Awaitable[Server]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
async def start(authority: Authority, tmp_path: Path) -> AsyncIterator[Start]:
    """Serve a handler with TLS until the test ends, as a service does."""
    runners: list[Runner] = []

    async def start(handler: Handler, limits: Limits = PATIENT_LIMITS) -> Server:
        files = certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
        install(authority, "first", *files)
        loaded = Certificate(Settings(tls_certificate=certificate, tls_key=key))
        runners.append(Runner(new_app(handler, limits=limits), shutdown_timeout=60.0))
        await runners[-1].setup()
        listener = socket.create_server(("127.0.0.1", 0))
        await runners[-1].listen(listener, loaded.context)
        port = listener.getsockname()[1]
        return Server(runners[-1], port, files, loaded, authority.client_context())

    yield start
    for runner in runners:
        await runner.cleanup()


def install(authority: Authority, name: str, certificate: Path, key: Path, **options: Any) -> None:
    """Issue a certificate, and write it and its key to the files of a server."""
    issued = authority.issue(name, **options)
    certificate.write_bytes(issued[0].read_bytes())
    key.write_bytes(issued[1].read_bytes())


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def respond(_: web.Request) -> web.Response:
    return web.Response(text="done")


async def test_requests_of_a_connection_are_served_by_tls_1_2_or_later(start: Start) -> None:
    seen = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request.scheme, request.remote))
        return await respond(request)

    server = await start(handle)
    assert server.certificate.context.minimum_version == ssl.TLSVersion.TLSv1_2
    server.context.set_alpn_protocols(["h2", "http/1.1"])
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        server.context.minimum_version = server.context.maximum_version = version
        reader, writer = await server.connect()
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.write(GET)
        assert b"200 OK" in await reader.readuntil(b"done")
        writer.write(GET + LAST)
        assert (await read_all(reader)).count(b"HTTP/1.1 200 OK") == 2
        await close(writer)
    assert seen == 6 * [("https", "127.0.0.1")]


@pytest.mark.parametrize("key_types", [list(KeyType), list(reversed(KeyType))])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["localhost", None])
async def test_a_reloaded_certificate_replaces_one_with_another_type_of_key(
    key_types: list[KeyType],
    version: ssl.TLSVersion,
    name: str | None,
    start: Start,
    authority: Authority,
) -> None:
    server = await start(respond)
    server.context.minimum_version = server.context.maximum_version = version
    server.context.check_hostname = name is not None
    for key_type in key_types:
        install(authority, key_type.name, *server.files, key_type=key_type)
        server.certificate.reload()
        _, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=server.context, server_hostname=name or ""
        )
        issued = x509.load_pem_x509_certificate(server.files[0].read_bytes())
        used = writer.get_extra_info("peercert")["serialNumber"]
        assert int(used, 16) == issued.serial_number
        await close(writer)


def encrypted(key: Path) -> Path:
    """Return a copy of the key with a passphrase."""
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    path = key.with_name("encrypted.pem")
    path.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    return path


def test_files_that_are_not_usable_are_reported_with_their_flag(authority: Authority) -> None:
    certificate, key, both = authority.issue("usable")
    _, other_key, _ = authority.issue("other")
    _, rsa_key, _ = authority.issue("rsa", key_type=KeyType.RSA)
    missing, empty, directory = certificate.with_name("missing"), key.with_name("empty"), key.parent
    empty.touch()
    both_flags = "--tls-certificate and --tls-key are not usable:"
    for certificate_file, key_file, expected in (
        (missing, key, f"--tls-certificate: cannot read {missing} (No such file or directory)"),
        (certificate, missing, f"--tls-key: cannot read {missing} (No such file or directory)"),
        (certificate, directory, f"--tls-key: cannot read {directory} (Is a directory)"),
        (empty, key, f"{both_flags} no valid pem"),
        (certificate, empty, f"{both_flags} no valid pem"),
        (certificate, other_key, f"{both_flags} key values mismatch"),
        (certificate, rsa_key, f"{both_flags} no certificate assigned"),
        (certificate, encrypted(key), "--tls-key: the private key is encrypted; remove its pass"),
    ):
        with pytest.raises(StartError) as caught:
            Certificate(Settings(tls_certificate=certificate_file, tls_key=key_file))
        assert str(caught.value).startswith(expected)
    Certificate(Settings(tls_certificate=both, tls_key=both))


def test_expired_certificates_work(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    expired = datetime.now(UTC) - timedelta(days=1)
    certificate, key, _ = authority.issue("expired", expires=expired)
    Certificate(Settings(tls_certificate=certificate, tls_key=key))
    (record,) = caplog.records
    assert f"{certificate} is valid only from " in record.message
    assert f"to {expired:%Y-%m-%d}" in record.message


async def test_a_client_without_tls_or_with_an_endless_handshake_is_disconnected(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start(respond, SHORT_LIMITS)
    for sent in (GET, b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        with suppress(ConnectionResetError):
            assert b"HTTP" not in await read_all(reader)
        await close(writer)
    patient = await start(respond)
    _, pending = await asyncio.open_connection("127.0.0.1", patient.port)
    await asyncio.sleep(0.05)
    await asyncio.wait_for(patient.runner.cleanup(), SECONDS)
    await close(pending)
    assert caplog.records == []


async def test_a_client_that_does_not_read_is_cut(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server = await start(endless, SLOW_READERS)
    reader, writer = await server.connect(connected(server.port))
    writer.write(GET)
    assert await eventually(
        lambda: "A client has not read a part of its response in" in caplog.text
    )
    with pytest.raises((ConnectionResetError, ssl.SSLError)):
        await read_all(reader)
    await close(writer)


@pytest.mark.parametrize("by", ["closing", "resetting"])
async def test_a_client_that_disconnects_ends_its_request_and_fills_no_log(
    by: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(_: web.Request) -> web.Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("cannot be reached")

    server = await start(wait)
    _, writer = await server.connect()
    writer.write(GET)
    await begun.wait()
    if by == "closing":
        writer.close()
    else:
        writer.transport.abort()
    await asyncio.wait_for(ended.wait(), SECONDS)
    assert caplog.records == []


async def test_responses_and_handshakes_end_regularly_during_a_stop(start: Start) -> None:
    gate = Gate()
    server = await start(gate.handle)
    reader, writer = await server.connect()
    writer.write(GET)
    await gate.entered.wait()
    idle_reader, idle_writer = await server.connect()
    late_reader, late_writer = await asyncio.open_connection("127.0.0.1", server.port)
    stopping = asyncio.create_task(server.runner.cleanup())
    await asyncio.sleep(0.05)
    await late_writer.start_tls(server.context, server_hostname="localhost")
    assert await read_all(late_reader) == await read_all(idle_reader) == b""
    gate.open()
    received = await read_all(reader)
    assert b"\r\nConnection: close\r\n" in received
    assert received.endswith(b"GET")
    await asyncio.wait_for(stopping, SECONDS)
    for opened in (writer, idle_writer, late_writer):
        await close(opened)


async def test_a_client_that_does_not_close_delays_no_stop(start: Start) -> None:
    server = await start(respond)
    reader, writer = await server.connect(connected(server.port))
    writer.write(GET)
    await reader.readuntil(b"done")
    writer.transport.pause_reading()  # type: ignore[attr-defined] # of asyncio.Transport
    await asyncio.wait_for(server.runner.cleanup(), SECONDS)
    await close(writer)
