"""The test bed: a MongoDB on a real disk, and a temporary directory."""

import asyncio
import sys
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from platform import machine, python_version
from tempfile import TemporaryDirectory

from motor.motor_asyncio import AsyncIOMotorClient

from benchmark.data import Database
from benchmark.processes import Access, Server, all_cores, run_server
from registry.model.record import Record
from registry.mongod.embedded import mongod
from registry.settings import Settings

_ON_DISK = "/var/tmp"  # noqa: S108 - TemporaryDirectory is private; /tmp may be in memory


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate for 127.0.0.1, of its key, and of its certificate authority."""

    chain: Path
    key: Path
    authority: Path


class Testbed:
    """A MongoDB, a client of it, and a directory.

    uri: that of the MongoDB. certificate: for servers with TLS, which require access tokens.
    """

    def __init__(
        self,
        uri: str,
        client: AsyncIOMotorClient[Record],
        directory: Path,
        certificate: Certificate | None = None,
    ) -> None:
        self.uri = uri
        self._client = client
        self._directories = (directory / str(number) for number in count())
        self._certificate = certificate

    def database(self, name: str) -> Database:
        """Return the database of this name."""
        return self._client[name]

    async def mongod(self) -> str:
        """Return the path of the mongod."""
        options = await self._client.admin.command("getCmdLineOpts")
        return str(options["argv"][0])

    async def environment(self) -> str:
        """Describe what the results depend on: processor, Python, MongoDB."""
        version = (await self._client.server_info())["version"]
        cores = f"{len(all_cores())} cores of {_processor()}"
        return f"{cores}, Python {python_version()}, MongoDB {version}"

    def new_directory(self) -> Path:
        """Create a directory."""
        directory = next(self._directories)
        directory.mkdir()
        return directory

    @asynccontextmanager
    async def service(
        self,
        database: str,
        cores: Collection[int],
        *arguments: str,
        errors: int | None = None,
        is_patient: bool = False,
    ) -> AsyncIterator[Server]:
        """Run the service on a database, pinned to these cores.

        errors: as in `run_server`. is_patient: whether requests wait for longer, as in `patient`.
        """
        settings = ["--mongodb-uri", self.uri, "--database", database]
        access = None
        if one := self._certificate:
            access = Access(one.authority, await _new_token(*settings))
            tls = ("--tls-certificate", str(one.chain), "--tls-key", str(one.key))
            arguments = (*arguments, "--auth", "on", *tls)
        module = "benchmark.patient" if is_patient else "registry"
        command = (module, *settings, "--port", "0", *arguments)
        async with run_server(cores, *command, errors=errors, access=access) as server:
            yield server

    def reference(
        self, cores: Collection[int], *command: str
    ) -> AbstractAsyncContextManager[Server]:
        """Run a server that the service is compared with, pinned to these cores."""
        if one := self._certificate:
            access, files = Access(one.authority, "none"), (str(one.chain), str(one.key))
            return run_server(cores, *command, *files, access=access)
        return run_server(cores, *command)


@asynccontextmanager
async def new_testbed() -> AsyncIterator[Testbed]:
    """Start an embedded mongod in a temporary directory; both end with the context."""
    with temporary_directory() as directory:
        async with (
            mongod(Settings(data_dir=directory / "data")) as uri,
            open_client(uri) as client,
        ):
            yield Testbed(uri, client, directory)


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a directory on a real disk, which ends with the context."""
    with TemporaryDirectory(prefix="registry-", dir=_ON_DISK) as name:
        yield Path(name)


@asynccontextmanager
async def open_client(uri: str) -> AsyncIterator[AsyncIOMotorClient[Record]]:
    """Yield a client of a MongoDB, which ends with the context."""
    client: AsyncIOMotorClient[Record] = AsyncIOMotorClient(uri)
    try:
        yield client
    finally:
        client.close()


async def _new_token(*database: str) -> str:
    """Return a new access token. database: the settings of the service with its database."""
    command = ("token", "create", "--name", "benchmark", "--scope", "write", *database)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "registry", *command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    return output.decode().strip()


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else machine()
