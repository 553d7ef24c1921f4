"""The test bed: an embedded mongod on a real disk, and a temporary directory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from platform import machine, python_version
from tempfile import TemporaryDirectory

from motor.motor_asyncio import AsyncIOMotorClient

from benchmark.data import Database
from benchmark.processes import Server, all_cores, run_server
from registry.model.record import Record
from registry.settings import Settings
from registry.storage.mongod.embedded import mongod

_ON_DISK = "/var/tmp"  # noqa: S108 - TemporaryDirectory is private; /tmp may be in memory

PATIENT = ("--queue-seconds", "60")
"""Settings of a service that refuses no requests, as the naive server does not: 256 lists, or 64
searches for text in a million persons, take longer than the default."""


class Testbed:
    """A mongod, a client of it, and a directory. uri: the URI of the mongod."""

    def __init__(self, uri: str, client: AsyncIOMotorClient[Record], directory: Path) -> None:
        self.uri = uri
        self._client = client
        self._directories = (directory / str(number) for number in count())

    def database(self, name: str) -> Database:
        """Return the database of this name."""
        return self._client[name]

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

    def service(
        self,
        database: str,
        cores: Collection[int],
        *arguments: str,
        errors: int | None = None,
    ) -> AbstractAsyncContextManager[Server]:
        """Run the service on a database, pinned to these cores. errors: as in `run_server`."""
        settings = ("--mongodb-uri", self.uri, "--database", database, "--port", "0")
        return run_server(cores, "registry", *settings, *arguments, errors=errors)


@asynccontextmanager
async def new_testbed() -> AsyncIterator[Testbed]:
    """Start a mongod in a temporary directory; both end with the context."""
    with TemporaryDirectory(prefix="registry-", dir=_ON_DISK) as name:
        directory = Path(name)
        async with mongod(Settings(data_dir=directory / "data")) as uri:
            client: AsyncIOMotorClient[Record] = AsyncIOMotorClient(uri)
            try:
                yield Testbed(uri, client, directory)
            finally:
                client.close()


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else machine()
