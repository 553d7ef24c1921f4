"""The embedded mongod: a one-node replica set on a unix socket that only this user can open.

- It is not restarted: its end ends the service, which systemd or Compose start again with it.
- It writes its own log, which says why it ends; this module moves the file when it is full.
- It keeps the lock of the data directory too, until it has ended.
"""

import asyncio
import importlib.util
import os
import shutil
import socket
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    suppress,
)
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from registry.child_processes import START_SECONDS, child_process, wait_for_exit
from registry.mongod.data_directory import (
    MEMBER,
    PRIMARY,
    db_path,
    has_space,
    is_listening,
    locked,
    socket_directory,
    start_errors,
    uri_of,
)
from registry.program import StartError, open_private
from registry.settings import Settings

OPLOG_MB = 1_024
"""The size of the oplog: how many changes followers of the feed can catch up on. It keeps them for
no minimum time, as a day of imports could then fill the disk."""

_SNAPSHOT_SECONDS, _LONG_SNAPSHOT_SECONDS = 300, 3_600
"""How long mongod keeps a point in time, and how long while a command reads the whole database."""

_OPTIONS = (
    *("--quiet", "--setParameter", "diagnosticDataCollectionEnabled=false"),
    # The transactions of a service that was killed; a live one takes ten seconds at most.
    *("--setParameter", "transactionLifetimeLimitSeconds=15"),
    *("--replSet", "registry"),
    *("--slowms", "5000"),  # under load, ordinary transactions take longer than 100 ms
    *("--logappend", "--logRotate", "reopen"),
    *("--bind_ip", MEMBER, "--unixSocketPrefix", ".", "--filePermissions", "0700"),
    # The service needs neither; switched off, they cannot be attacked.
    *("--networkMessageCompressors", "disabled", "--noscripting"),
    *("--oplogSize", str(OPLOG_MB)),  # instead of 5 % of the disk
    # Instead of three files of 100 MB, which double the time of a first start.
    *("--wiredTigerEngineConfigString", "log=(file_max=10MB)"),
)

_POLL_SECONDS = 0.005

_STOP_SECONDS = 6.0
"""The time after which mongod is killed. Including open requests, a stop takes under 30 s."""

_LOG_SECONDS = 5.0
"""How often the size of the log is checked."""

_MAX_LOG_BYTES = 16 * 2**20

_MIN_SPACE_BYTES = 32 * 2**20
"""With less free space, mongod ends, or does not start, for that reason."""

_HINTS = {
    14: "its files are damaged, or of a later version of MongoDB, to be chosen with --mongod",
    62: "another version of MongoDB has written the data: choose it with --mongod",
    127: "it is missing, or a library that it needs, such as libcurl.so.4",
    132: "this processor may lack AVX, which MongoDB needs",
    134: "its files may be damaged",
}
"""What the exit status of mongod, or of the shell that runs it, says."""

_SCRIPT = """
exec 3<&0
"$@" </dev/null 3<&- & program=$!
{ read -r _ <&3; kill "$program"; } 2>/dev/null & watcher=$!
wait "$program"; status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"""
"""Terminates the program when standard input is closed, also because this process has ended.
Background commands of a shell read /dev/null instead of standard input, hence descriptor 3."""

_ALREADY_INITIALIZED = 23
"""MongoDB's error code for a replica set that exists."""

_MongoClient: TypeAlias = AsyncIOMotorClient[dict[str, Any]]


@asynccontextmanager
async def mongod(
    settings: Settings, on_failure: Callable[[str], None] = lambda _: None
) -> AsyncIterator[str]:
    """Run a mongod on `settings.data_dir`; yield its URI once it accepts writes.

    If it ends before the context, `on_failure` is called with the reason. It ends with the context,
    or soon after this process, even after kill -9. Raises StartError if it cannot run.
    """
    binary = find_binary(settings.mongod)
    data_dir = settings.data_dir.absolute()
    log = data_dir / "mongod.log"
    files = ("--dbpath", str(db_path(data_dir)), "--logpath", str(log))
    async with AsyncExitStack() as stack:
        lock = await stack.enter_async_context(locked(data_dir))
        directory = stack.enter_context(socket_directory(data_dir))
        member, link = directory / MEMBER, directory / PRIMARY
        stack.callback(link.unlink, missing_ok=True)
        with start_errors(data_dir):
            link.unlink(missing_ok=True)
            _move_full(log)
            output = stack.enter_context(open_private(log))
        command = (str(binary), *files, *_cache(), *_OPTIONS)
        running = bound_process(command, directory, output, inherited=(lock.fileno(),))
        try:
            process, _ = await stack.enter_async_context(running)
        except OSError as error:
            raise StartError(f"mongod does not start: {error}") from error
        ending = asyncio.create_task(_end_of(process, log))
        stack.callback(ending.cancel)
        await _wait_until_ready(member, ending)
        link.symlink_to(MEMBER)
        for watching in (_limit_log(log, member), _report_end(ending, on_failure)):
            stack.callback(asyncio.create_task(watching).cancel)
        yield uri_of(link)


def _cache() -> tuple[str, str]:
    # mongod would take half of the memory; 0.25 is its minimum, 2 suffice for millions of records.
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**32
    return "--wiredTigerCacheSizeGB", f"{min(max(0.25, quarter), 2.0):.2f}"


def bound_process(
    command: tuple[str, ...], directory: Path, output: BinaryIO, inherited: Sequence[int] = ()
) -> AbstractAsyncContextManager[tuple[Process, socket.socket]]:
    """Run a program in a directory until the context or this process ends, even by kill -9.

    output: takes what it prints. inherited: files that it keeps open. Yields and raises what
    `child_process` does.
    """
    return child_process(
        *("/bin/sh", "-c", _SCRIPT, "registry-child", *command),
        stop=lambda _, stdin: stdin.close(),
        seconds=_STOP_SECONDS,
        cwd=directory,
        stdout=output,
        stderr=output,
        pass_fds=inherited,
    )


async def _end_of(process: Process, log: Path) -> str:
    """Wait until mongod ends, and return why."""
    ended, hint = await wait_for_exit(process), _HINTS.get(process.returncode or 0)
    with suppress(OSError):
        if not has_space(log.parent, _MIN_SPACE_BYTES):
            hint = f"its disk has less than {_MIN_SPACE_BYTES // 2**20} MB of free space"
    return f"{ended}{f': {hint}' if hint else ''} (its log is {log})"


async def _report_end(ending: asyncio.Task[str], on_failure: Callable[[str], None]) -> None:
    on_failure(f"mongod has ended: {await ending}")


async def _wait_until_ready(member: Path, ending: asyncio.Task[str]) -> None:
    """Wait until mongod is the primary. Raises StartError if it ends before, or takes too long."""
    try:
        # Used here only: a client that connected before the initiation assumes no session support.
        with closing(_client_of(member)) as client:
            async with asyncio.timeout(START_SECONDS):
                while not ending.done():
                    if is_listening(member) and await _is_primary(client):
                        break
                    await asyncio.sleep(_POLL_SECONDS)
                if ending.done():
                    raise StartError(f"mongod does not start: {ending.result()}")
                # That of data directories of earlier versions is smaller.
                await client.admin.command("replSetResizeOplog", size=float(OPLOG_MB))
    except TimeoutError:
        reason = f"it was not ready after {START_SECONDS:g} s"
        raise StartError(f"mongod does not start: {reason}") from None
    except PyMongoError as error:
        raise StartError(f"mongod does not start: {error}") from error


async def _is_primary(client: _MongoClient) -> bool:
    """Return whether mongod accepts writes; initiate its replica set if there is none yet."""
    try:
        hello = await client.admin.command("hello")
        if "isreplicaset" in hello:  # not a member of a set yet, or not yet known to be one
            config = {"_id": "registry", "members": [{"_id": 0, "host": MEMBER}]}
            await client.admin.command("replSetInitiate", config)
    except ConnectionFailure:
        return False  # it is about to end
    except OperationFailure as error:
        if error.code != _ALREADY_INITIALIZED:
            raise
    return bool(hello["isWritablePrimary"])


def _client_of(member: Path) -> _MongoClient:
    return AsyncIOMotorClient(uri_of(member), serverSelectionTimeoutMS=5000)


async def _limit_log(log: Path, member: Path) -> NoReturn:
    """Let mongod begin another log when its log is full, until cancelled."""
    while True:
        await asyncio.sleep(_LOG_SECONDS)
        if _move_full(log):
            with suppress(PyMongoError), closing(_client_of(member)) as client:
                await client.admin.command({"logRotate": 1})


def _move_full(log: Path) -> bool:
    """Give a full log another name; return whether a log with its name is missing."""
    with suppress(FileNotFoundError):
        if log.stat().st_size < _MAX_LOG_BYTES:
            return False
        log.replace(f"{log}.1")
    return True


@asynccontextmanager
async def long_snapshots(client: _MongoClient) -> AsyncIterator[None]:
    """Keep each point in time of an embedded mongod for an hour, until the end of the context.

    Raises PyMongoError.
    """
    name = "minSnapshotHistoryWindowInSeconds"
    await client.admin.command({"setParameter": 1, name: _LONG_SNAPSHOT_SECONDS})
    try:
        yield
    finally:
        await client.admin.command({"setParameter": 1, name: _SNAPSHOT_SECONDS})


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
