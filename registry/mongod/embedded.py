"""The embedded mongod: a one-node replica set on a unix socket that only this user can open.

The format of its data is what MongoDB calls the feature compatibility version. A mongod opens data
in its own format and in that of the major version before, and keeps it. Once the format is raised
to its own, earlier versions can no longer open the data.
"""

import asyncio
import importlib.util
import logging
import os
import shutil
import socket
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.errors import OperationFailure, PyMongoError

from registry.metrics import MONGOD_RESTARTS
from registry.mongod.data_directory import (
    MEMBER,
    db_path,
    has_space,
    is_listening,
    locked,
    socket_directory,
    socket_uri,
    start_errors,
    uri_of,
    wait_for_previous,
)
from registry.mongod.server_log import Log
from registry.program import StartError, program
from registry.settings import Settings
from registry.supervision import START_SECONDS, Supervisor, child_process, wait_for_exit

_OPTIONS = (
    *("--quiet", "--setParameter", "diagnosticDataCollectionEnabled=false"),
    # The transactions of a service that was killed; a live one takes ten seconds at most.
    *("--setParameter", "transactionLifetimeLimitSeconds=15"),
    *("--replSet", "registry"),
    *("--slowms", "5000"),  # under load, ordinary transactions take longer than 100 ms
    *("--bind_ip", MEMBER, "--unixSocketPrefix", ".", "--filePermissions", "0700"),
    # The service needs neither; switched off, they cannot be attacked.
    *("--networkMessageCompressors", "disabled", "--noscripting"),
    *("--oplogSize", "128"),  # instead of 5 % of the disk, but
    *("--oplogMinRetentionHours", "24"),  # what followers of the change feed may have missed
    # Instead of three files of 100 MB, which double the time of a first start.
    *("--wiredTigerEngineConfigString", "log=(file_max=10MB)"),
)

_POLL_SECONDS = 0.005

_STOP_SECONDS = 6.0
"""The time after which mongod is killed. Including open requests, a stop takes under 30 s."""

_ORPHAN_SECONDS = 8
"""The same if this process has been killed."""

_LOG_SECONDS = 5.0
"""How often the size of the log is checked."""

_RESTART_BYTES = 32 * 2**20
"""With less free space, mongod cannot be relied on to start again."""

_SCRIPT = """
seconds=$1; shift
exec 3<&0
"$@" </dev/null 3<&- & program=$!
{
  read -r _ <&3 && seconds=0
  kill "$program"
  while [ "$seconds" -gt 0 ]; do
    command -p sleep 1
    kill -0 "$program" || exit
    seconds=$((seconds - 1))
    [ "$seconds" -gt 0 ] || kill -9 "$program"
  done
} 2>/dev/null & watcher=$!
wait "$program"; status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"""
"""Terminates the program when standard input receives a line, or is closed because this process
has ended. In the second case it also kills the program if it does not stop, as nobody else will.
Background commands of a shell read /dev/null instead of standard input, hence descriptor 3."""

_CONFIRMED_FROM = 7
"""The first major version that requires a confirmation to change the format; 6.0 refuses one."""

_MongoClient: TypeAlias = AsyncIOMotorClient[dict[str, Any]]

_log = logging.getLogger("registry")


@asynccontextmanager
async def mongod(
    settings: Settings, on_failure: Callable[[str], None] = lambda _: None
) -> AsyncIterator[str]:
    """Run a mongod on `settings.data_dir`; yield its URI once it accepts writes.

    If it exits, it is restarted under the same URI; if that fails repeatedly, `on_failure` is
    called with the reason. It ends with the context, or soon after this process, even after
    kill -9. Raises StartError if it cannot run.
    """
    binary = find_binary(settings.mongod)
    data_dir = settings.data_dir.absolute()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(locked(data_dir))
        with start_errors(data_dir):
            log = Log(data_dir / "mongod.log")
        stack.enter_context(log.file)
        sockets = stack.enter_context(socket_directory(data_dir))
        path, uri = stack.enter_context(socket_uri(sockets))
        data = ("--dbpath", str(db_path(data_dir)))
        command = (str(binary), *data, "--wiredTigerCacheSizeGB", _cache_gib(), *_OPTIONS)
        supervisor = await stack.enter_async_context(Supervisor(on_failure))
        await supervisor.start("mongod", _Mongod(command, data_dir, sockets, path, log).run)
        yield uri


def _cache_gib() -> str:
    # mongod would take half of the memory; 0.25 is its minimum, 2 suffice for millions of records.
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**32
    return f"{min(max(0.25, quarter), 2.0):.2f}"


@asynccontextmanager
async def bound_process(
    command: tuple[str, ...], directory: Path, log: Log
) -> AsyncIterator[Process]:
    """Run a program in a directory until the context or this process ends, even by kill -9.

    log: takes its output.
    """
    script = ("/bin/sh", "-c", _SCRIPT, "registry-child", str(_ORPHAN_SECONDS), *command)
    running = child_process(
        *script, stop=_stop, seconds=_STOP_SECONDS, cwd=directory, stdout=log.file, stderr=log.file
    )
    async with running as (process, _):
        yield process


def _stop(shell: Process, stdin: socket.socket) -> None:
    if shell.returncode is None:
        stdin.send(b"\n")
    stdin.close()  # ends the program if only the shell was killed


@dataclass(slots=True)
class _Mongod:
    """A mongod that can be started repeatedly.

    sockets: the directory where it runs. path: by which clients connect. starts: how many there
    were.
    """

    command: tuple[str, ...]
    data_dir: Path
    sockets: Path
    path: Path
    log: Log
    starts: int = 0

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Callable[[], Awaitable[str]]]:
        """Run it, as `Supervisor.start` requires."""
        if self.starts:
            self._require_space()
            await wait_for_previous(self.data_dir)
        self.path.unlink(missing_ok=True)
        self.log.begin()
        async with bound_process(self.command, self.sockets, self.log) as process:
            await self._wait_until_ready(process)
            if self.starts:
                MONGOD_RESTARTS.inc()
            self.starts += 1
            yield lambda: self._wait(process)

    def _require_space(self) -> None:
        with suppress(OSError):  # the start then fails for the same reason
            if not has_space(self.data_dir, _RESTART_BYTES):
                needed = _RESTART_BYTES // 2**20
                raise StartError(f"its disk has less than {needed} MB of free space")

    async def _wait(self, process: Process) -> str:
        """Wait until it ends, and return why; keep its log bounded meanwhile."""
        while process.returncode is None:
            await asyncio.to_thread(self.log.rotate_if_full)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOG_SECONDS):
                    await process.wait()
        return self._reason(await wait_for_exit(process), self.log.first_error())

    async def _wait_until_ready(self, process: Process) -> None:
        member = self.path.parent / MEMBER
        try:
            async with asyncio.timeout(START_SECONDS):
                while not is_listening(member):
                    if process.returncode is not None:
                        raise ChildProcessError(f"it ended with {await wait_for_exit(process)}")
                    await asyncio.sleep(_POLL_SECONDS)
                await _wait_for_primary(uri_of(member))
        except (TimeoutError, ChildProcessError, PyMongoError) as error:
            late = f"it was not ready after {START_SECONDS:g} s"
            reason = self.log.version_conflict() or self.log.first_error() or str(error) or late
            raise ChildProcessError(self._reason(reason)) from error
        self.path.symlink_to(MEMBER)

    def _reason(self, *parts: str | None) -> str:
        return f"{': '.join(filter(None, parts))} (its log is {self.log})"


async def _wait_for_primary(uri: str) -> None:
    """Initiate the replica set if there is none yet, and wait until it accepts writes."""
    # Used here only: a client that connected before the initiation assumes no session support.
    client: _MongoClient = AsyncIOMotorClient(uri, serverSelectionTimeoutMS=5000)
    try:
        while not (hello := await client.admin.command("hello"))["isWritablePrimary"]:
            if "isreplicaset" in hello:  # not a member of a set yet, or not yet known to be one
                await _initiate(client)
            await asyncio.sleep(_POLL_SECONDS)
        data_format = await read_format(client)
    finally:
        client.close()
    if data_format.data != data_format.own:
        _log.info(
            "mongod %s keeps the data in the format of MongoDB %s, so that version can still open "
            "it: `%s upgrade` raises the format",
            data_format.own,
            data_format.data,
            program(),
        )


async def _initiate(client: _MongoClient) -> None:
    members = [{"_id": 0, "host": MEMBER}]
    try:
        await client.admin.command("replSetInitiate", {"_id": "registry", "members": members})
    except OperationFailure as error:
        if error.code != 23:  # AlreadyInitialized
            raise


@dataclass(frozen=True, slots=True)
class DataFormat:
    """own: the format that a mongod writes, such as 7.0. data: that of its data, such as 6.0."""

    own: str
    data: str


async def read_format(client: _MongoClient) -> DataFormat:
    """Return the format of the data of a mongod. Raises PyMongoError."""
    build = await client.admin.command("buildInfo")
    name = "featureCompatibilityVersion"
    parameters = await client.admin.command({"getParameter": 1, name: 1})
    return DataFormat(build["version"].rpartition(".")[0], parameters[name]["version"])


async def raise_format(client: _MongoClient) -> DataFormat:
    """Raise the format of the data to that of their mongod; return the format before.

    It may be repeated, also after an interruption. Raises PyMongoError.
    """
    before = await read_format(client)
    command: dict[str, Any] = {"setFeatureCompatibilityVersion": before.own}
    if int(before.own.partition(".")[0]) >= _CONFIRMED_FROM:
        command["confirm"] = True
    await client.admin.command(command)
    return before


def find_binary(configured: Path | None) -> Path:
    """Return the path of the mongod to run, which REGISTRY_MONGOD may name. Raises StartError."""
    if configured is not None:
        if configured.is_dir() or not os.access(configured, os.X_OK):
            raise StartError(f"REGISTRY_MONGOD or --mongod: {configured} is not executable")
        return configured.absolute()
    # Not imported, as FiftyOne itself, which uses the same package name, may be installed.
    package = importlib.util.find_spec("fiftyone")
    for place in (package and package.submodule_search_locations) or ():
        if os.access(wheel := Path(place, "db", "bin", "mongod"), os.X_OK):
            return wheel.absolute()
    if installed := shutil.which("mongod"):
        return Path(installed).absolute()
    raise StartError(
        "no mongod: install the extra `embedded` (Linux on x86-64, macOS) or MongoDB, or set "
        "REGISTRY_MONGOD to a mongod, or MONGODB_URI to a replica set"
    )
