"""The databases: an embedded mongod on a real disk, or a replica set as in production."""

import asyncio
import re
import socket
import sys
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from platform import machine, python_version
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import trustme
from motor.motor_asyncio import AsyncIOMotorClient

from benchmark.processes import CORES, BenchmarkError, Server, run_server
from registry.mongod.embedded import mongod
from registry.settings import Settings

_ON_DISK = "/var/tmp"  # noqa: S108 - TemporaryDirectory is private; /tmp may be in memory

_OPTIONS = (
    *("--replSet", "benchmark", "--bind_ip", "127.0.0.1", "--nounixsocket", "--quiet"),
    *("--wiredTigerCacheSizeGB", "0.5", "--oplogSize", "256"),
    *("--tlsMode", "requireTLS", "--tlsAllowConnectionsWithoutCertificates"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    # Instead of 15 s, in which other members would take over.
    *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"),
)

_MODELS = re.findall(r"model name\s+: (.*)", Path("/proc/cpuinfo").read_text())
_PROCESSOR = f"{len(CORES)} cores of {_MODELS[0] if _MODELS else machine()}"

_START_SECONDS = 60.0

Client = AsyncIOMotorClient[dict[str, Any]]


@dataclass(frozen=True)
class MongoDB:
    """A running MongoDB. certificate: the directory of one for all servers, which use TLS then."""

    uri: str
    client: Client
    certificate: Path | None = None

    async def environment(self) -> str:
        """Describe what the results depend on: processor, Python, MongoDB."""
        version = (await self.client.server_info())["version"]
        return f"{_PROCESSOR}, Python {python_version()}, MongoDB {version}"

    @asynccontextmanager
    async def service(self, database: str) -> AsyncIterator[Server]:
        """Run the registry on a database."""
        settings = ("--mongodb-uri", self.uri, "--database", database)
        command: tuple[str, ...] = ("registry", "serve", *settings, "--port", "0")
        authority, token = None, None
        if self.certificate:
            chain, key, authority = _files(self.certificate)
            tls = ("--tls-certificate", str(chain), "--tls-key", str(key))
            command, token = (*command, "--auth", "on", *tls), await _new_token(*settings)
        async with run_server(*command, authority=authority, token=token) as server:
            yield server

    @asynccontextmanager
    async def reference(self, *command: str) -> AsyncIterator[Server]:
        """Run a server that the registry is compared with."""
        authority = None
        if self.certificate:
            chain, key, authority = _files(self.certificate)
            command = (*command, str(chain), str(key))
        async with run_server(*command, authority=authority) as server:
            yield server


@asynccontextmanager
async def embedded() -> AsyncIterator[MongoDB]:
    """Start an embedded mongod; it ends with the context, and its data with it."""
    with TemporaryDirectory(prefix="registry-", dir=_ON_DISK) as directory:
        settings = Settings(data_dir=Path(directory, "data"))
        async with mongod(settings) as uri:
            with closing(Client(uri)) as client:
                yield MongoDB(uri, client)


@asynccontextmanager
async def secured(other: MongoDB) -> AsyncIterator[MongoDB]:
    """Start a replica set that requires TLS and a password, of the same mongod as the other."""
    program = (await other.client.admin.command("getCmdLineOpts"))["argv"][0]
    with TemporaryDirectory(prefix="registry-", dir=_ON_DISK) as name:
        directory = Path(name)
        authority = _issue_certificate(directory)
        async with AsyncExitStack() as stack:
            hosts = []
            for number in range(3):
                member = _member(program, directory, number)
                hosts.append(f"localhost:{await stack.enter_async_context(member)}")
            tls = f"tls=true&tlsCAFile={authority}"
            await _initiate(hosts, tls)
            uri = f"mongodb://admin:secret@{','.join(hosts)}/?replicaSet=benchmark&{tls}"
            client = stack.enter_context(closing(Client(uri)))
            yield MongoDB(uri, client, directory)


def _files(directory: Path) -> list[Path]:
    """Return the files of a certificate for 127.0.0.1, of its key, and of its authority."""
    return [directory / name for name in ("chain.pem", "key.pem", "authority.pem")]


def _issue_certificate(directory: Path) -> Path:
    """Write the files of a new certificate; return that of its authority."""
    (chain, key, authority), issuer = _files(directory), trustme.CA()
    certificate = issuer.issue_cert("localhost", "127.0.0.1")
    chain.write_bytes(b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(str(key))
    certificate.private_key_and_cert_chain_pem.write_to_path(str(directory / "both.pem"))
    issuer.cert_pem.write_to_path(str(authority))
    return authority


@asynccontextmanager
async def _member(program: str, directory: Path, number: int) -> AsyncIterator[int]:
    """Start a member of the replica set; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    data, shared_key = directory / f"member-{number}", directory / f"key-{number}"
    data.mkdir()
    shared_key.write_text("x" * 64)
    shared_key.chmod(0o600)
    *_, authority = _files(directory)
    process = await asyncio.create_subprocess_exec(
        *(program, "--port", str(port), *_OPTIONS),
        *("--dbpath", str(data), "--keyFile", str(shared_key)),
        *("--tlsCertificateKeyFile", str(directory / "both.pem"), "--tlsCAFile", str(authority)),
        stdout=DEVNULL,
        start_new_session=True,
    )
    try:
        yield port
    finally:
        process.terminate()
        await process.wait()


async def _initiate(hosts: Collection[str], tls: str) -> None:
    """Initiate the replica set, and create a user once it has a primary."""
    members = [{"_id": number, "host": host} for number, host in enumerate(hosts)]
    members[0]["priority"] = 2  # the only one that may create the first user without a password
    uris = [f"mongodb://{host}/?directConnection=true&{tls}" for host in hosts]
    for uri in uris:
        with closing(Client(uri)) as client:
            await client.admin.command("hello")  # waits until the member accepts connections
    with closing(Client(uris[0])) as client:
        config = {"_id": "benchmark", "members": members}
        await client.admin.command("replSetInitiate", config)
        deadline = time.monotonic() + _START_SECONDS
        while not (await client.admin.command("hello"))["isWritablePrimary"]:
            if time.monotonic() > deadline:
                raise BenchmarkError("the replica set elects no primary")
            await asyncio.sleep(0.1)
        await client.admin.command({"createUser": "admin", "pwd": "secret", "roles": ["root"]})


async def _new_token(*database: str) -> str:
    """Return a new access token. database: the settings of the service with its database."""
    command = ("token", "create", "--name", f"benchmark-{uuid4()}", "--scope", "write", *database)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "registry", *command), stdout=PIPE, stderr=DEVNULL
    )
    output, _ = await process.communicate()
    return output.decode().strip()
