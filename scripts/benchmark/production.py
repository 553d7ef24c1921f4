"""Compares the servers as in production: a secured replica set of three members, TLS, tokens."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL

import trustme

from benchmark.comparison import compare_servers
from benchmark.processes import BenchmarkError
from benchmark.rounds import Plan
from benchmark.samples import Part, Results
from benchmark.testbed import Certificate, Testbed, open_client, temporary_directory

_OPTIONS = (
    *("--replSet", "benchmark", "--bind_ip", "127.0.0.1", "--nounixsocket", "--quiet"),
    *("--wiredTigerCacheSizeGB", "0.5", "--oplogSize", "256"),
    *("--tlsMode", "requireTLS", "--tlsAllowConnectionsWithoutCertificates"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    # Instead of 15 s, in which other members would take over.
    *("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"),
)

_MEMBERS = 3

_START_SECONDS = 60.0


async def compare_in_production(
    testbed: Testbed, persons: int, names: Collection[str], plan: Plan, results: Results
) -> None:
    """Measure as `compare_servers` does, with HTTPS, an access token, and a secured replica set."""
    async with _secured_testbed(await testbed.mongod()) as secured:
        await compare_servers(secured, persons, names, plan, results, Part.PRODUCTION)


@asynccontextmanager
async def _secured_testbed(program: str) -> AsyncIterator[Testbed]:
    """Start a replica set that requires TLS and a password; it ends with the context.

    program: the path of mongod.
    """
    with temporary_directory() as directory:
        certificate = _new_certificate(directory)
        async with AsyncExitStack() as stack:
            homes = [directory / f"member-{number}" for number in range(_MEMBERS)]
            ports = [
                await stack.enter_async_context(_member(program, home, certificate))
                for home in homes
            ]
            hosts = [f"localhost:{port}" for port in ports]
            tls = f"tls=true&tlsCAFile={certificate.authority}"
            await _initiate(hosts, tls)
            uri = f"mongodb://admin:secret@{','.join(hosts)}/?replicaSet=benchmark&{tls}"
            client = await stack.enter_async_context(open_client(uri))
            yield Testbed(uri, client, directory, certificate)


def _new_certificate(directory: Path) -> Certificate:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    files = [directory / name for name in ("chain.pem", "key.pem", "authority.pem")]
    files[0].write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))
    files[1].write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(str(files[2]))
    return Certificate(*files)


@asynccontextmanager
async def _member(program: str, home: Path, certificate: Certificate) -> AsyncIterator[int]:
    """Start a member of the replica set; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *(program, "--port", str(port), *_files(home, certificate), *_OPTIONS),
        stdout=DEVNULL,
        start_new_session=True,
    )
    try:
        yield port
    finally:
        process.terminate()
        await process.wait()


def _files(home: Path, certificate: Certificate) -> list[str]:
    """Create the files of a member; return the options with their paths."""
    data, both, shared_key = (home / name for name in ("data", "both.pem", "keyfile"))
    data.mkdir(parents=True)
    both.write_bytes(certificate.key.read_bytes() + certificate.chain.read_bytes())
    shared_key.write_text("x" * 64)
    shared_key.chmod(0o600)
    return [
        *("--dbpath", str(data), "--keyFile", str(shared_key)),
        *("--tlsCertificateKeyFile", str(both), "--tlsCAFile", str(certificate.authority)),
    ]


async def _initiate(hosts: Collection[str], tls: str) -> None:
    """Initiate the replica set, and create a user once it has a primary."""
    members = [{"_id": number, "host": host} for number, host in enumerate(hosts)]
    members[0]["priority"] = 2  # the only one that may create the first user without a password
    uris = [f"mongodb://{host}/?directConnection=true&{tls}" for host in hosts]
    for uri in uris:
        async with open_client(uri) as client:
            await client.admin.command("hello")  # waits until the member accepts connections
    async with open_client(uris[0]) as client:
        config = {"_id": "benchmark", "members": members}
        await client.admin.command("replSetInitiate", config)
        deadline = time.monotonic() + _START_SECONDS
        while not (await client.admin.command("hello"))["isWritablePrimary"]:
            if time.monotonic() > deadline:
                raise BenchmarkError("the replica set elects no primary")
            await asyncio.sleep(0.1)
        await client.admin.command({"createUser": "admin", "pwd": "secret", "roles": ["root"]})
