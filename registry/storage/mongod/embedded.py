"""The embedded mongod: a one-node replica set on a unix socket that only this user can open."""

import asyncio
import fcntl
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo.errors import OperationFailure, PyMongoError

from registry.settings import Settings
from registry.start_error import StartError
from registry.storage.mongod.child_process import ChildProcess
from registry.storage.mongod.log import Log
from registry.storage.mongod.supervision import Program, Supervisor

_SOCKET = "mongodb-27017.sock"

MEMBER = f"./{_SOCKET}"
"""The member of the replica set. mongod runs in the directory of its socket, so this name, which
is stored with the data, stays valid when they are moved; the leading dot avoids a DNS lookup."""

_MAX_HOME_LENGTH = 60
"""Maximum characters of a data directory that contains the socket, whose path is limited to 103
bytes (macOS) or 107 (Linux)."""

_OPTIONS = (
    *("--quiet", "--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--replSet", "registry"),
    *("--slowms", "5000"),  # under load, ordinary transactions take longer than 100 ms
    *("--bind_ip", MEMBER, "--unixSocketPrefix", ".", "--filePermissions", "0700"),
    *("--oplogSize", "128"),  # instead of 5 % of the disk
    # Instead of three files of 100 MB, which double the time of a first start.
    *("--wiredTigerEngineConfigString", "log=(file_max=10MB)"),
)

_ADVICE = "choose another with --data-dir or REGISTRY_DATA_DIR"

_POLL_SECONDS = 0.005
_PREVIOUS_SECONDS = 30.0
_COMMAND_SECONDS = 3.0  # most commands on the data directory of a stopped service take less
_START_SECONDS = 120.0  # after a crash there may be a journal to replay


@asynccontextmanager
async def mongod(
    settings: Settings, on_failure: Callable[[str], None] = lambda _: None
) -> AsyncIterator[str]:
    """Run a mongod on `settings.data_dir`; yield its URI once it accepts writes.

    If it exits, it is restarted under the same URI; if that fails repeatedly, `on_failure` is
    called with the reason, on another thread. It ends with the context, or soon after this process,
    even after kill -9, and is not bound to an event loop. Raises StartError if it cannot run.
    """
    binary = _binary(settings.mongod)
    home = settings.data_dir.absolute()
    with ExitStack() as stack:
        await _lock(stack.enter_context(_lock_file(home)), home)
        log = stack.enter_context(_opened_log(home))
        await _wait_for_previous(home / "mongodb" / "mongod.lock")
        sockets = stack.enter_context(_socket_directory(home))
        data, cache = ("--dbpath", str(home / "mongodb")), ("--wiredTigerCacheSizeGB", _cache_gib())
        command = [str(binary), *data, *cache, *_OPTIONS]

        def start() -> ChildProcess:
            sockets.mkdir(mode=0o700, exist_ok=True)  # removed when mongod ends
            return ChildProcess(command, sockets, log.file)

        ready = partial(_wait_for_socket, sockets / _SOCKET)
        program = Program("mongod", start, ready, home, log, on_failure)
        supervisor = Supervisor(program, child := start())
        try:
            uri = await _started(child, sockets / _SOCKET, log)
            supervisor.start()
            yield uri
        finally:
            await asyncio.to_thread(supervisor.stop)


def running_uri(settings: Settings) -> str | None:
    """Return the URI of the mongod that a service runs on `settings.data_dir`; None without one.

    Raises StartError.
    """
    home = settings.data_dir.absolute()
    with _writing(home):
        directories = list(home.glob("socket-*"))
    for directory in directories:
        path = (directory.readlink() if directory.is_symlink() else directory) / _SOCKET
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            # In /tmp, somebody else may have taken the name of a socket that is left over.
            if path.stat().st_uid == home.stat().st_uid:
                return _uri(path)
    return None


def has_data(settings: Settings) -> bool:
    """Return whether a mongod has ever run on `settings.data_dir`. Raises StartError."""
    home = settings.data_dir.absolute()
    with _writing(home):
        return (home / "mongodb" / "WiredTiger").is_file()


def version(settings: Settings) -> str | None:
    """Return the version of the mongod that would run, None if there is none or it cannot run."""
    try:
        program = _binary(settings.mongod)
        printed = subprocess.run(  # noqa: S603 - the program that the service runs
            [program, "--version"], capture_output=True, check=True, text=True
        ).stdout
    except (StartError, OSError, subprocess.CalledProcessError):
        return None
    return printed.partition("version v")[2].partition("\n")[0] or None


def _uri(path: Path) -> str:
    return f"mongodb://{quote(str(path), safe='')}/?directConnection=true"


async def _started(child: ChildProcess, path: Path, log: Log) -> str:
    uri = _uri(path)
    try:
        async with asyncio.timeout(_START_SECONDS):
            await _wait_for_socket(path, child)
            await _wait_for_primary(uri)
    except (TimeoutError, ChildProcessError, PyMongoError) as error:
        reason = log.first_error() or str(error) or f"it was not ready after {_START_SECONDS:g} s"
        raise StartError(f"mongod does not start: {reason} (its log is {log})") from error
    return uri


def _binary(configured: Path | None) -> Path:
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
        "no mongod for this platform: install MongoDB, or set REGISTRY_MONGOD to a mongod, "
        "or MONGODB_URI to a replica set"
    )


def _cache_gib() -> str:
    # mongod would take half of the memory; 0.25 is its minimum, 2 suffice for millions of records.
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**32
    return f"{min(max(0.25, quarter), 2.0):.2f}"


@contextmanager
def _lock_file(home: Path) -> Iterator[TextIO]:
    with _writing(home):
        for directory in (home, home / "mongodb"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (home / "lock").open("a+")
    with file:
        yield file


async def _lock(file: TextIO, home: Path) -> None:
    """Lock the data directory until the file is closed, at most until this process ends."""
    deadline = time.monotonic() + _COMMAND_SECONDS
    while not _try_lock(file):
        if time.monotonic() > deadline:
            file.seek(0)
            reason = f"data directory {home} is in use by another registry (process {file.read()})"
            raise StartError(f"{reason}, a service or a command: stop it, or {_ADVICE}")
        await asyncio.sleep(_POLL_SECONDS)
    with _writing(home):
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()


@contextmanager
def _opened_log(home: Path) -> Iterator[Log]:
    with _writing(home):
        log = Log.open(home / "mongod.log")
        log.begin()
    with log.file:
        yield log


@contextmanager
def _socket_directory(home: Path) -> Iterator[Path]:
    """Create the directory of the socket; if it is not in `home`, a link there leads to it."""
    with _writing(home):
        for found in home.glob("socket-*"):  # after a system crash
            if found.is_symlink():
                found.unlink()
            else:
                shutil.rmtree(found, ignore_errors=True)
        plain = str(home).isascii() and len(str(home)) <= _MAX_HOME_LENGTH
        parent = home if plain else "/tmp"  # noqa: S108 - a short path; mkdtemp makes it private
        directory = Path(tempfile.mkdtemp(prefix="socket-", dir=parent))
        link = home / directory.name
        if not plain:
            link.symlink_to(directory)
    try:
        yield directory
    finally:
        if not plain:
            link.unlink(missing_ok=True)


@contextmanager
def _writing(home: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = f"cannot write to data directory {home} ({error.strerror})"
        raise StartError(f"{reason}: {_ADVICE}") from error


async def _wait_for_previous(lock: Path) -> None:
    """Wait for the mongod of a service that was killed: it may still be closing its files."""
    deadline = time.monotonic() + _PREVIOUS_SECONDS
    while process := _locked_by(lock):
        if time.monotonic() > deadline:
            raise StartError(f"mongod (process {process}) still uses {lock.parent}: stop it first")
        await asyncio.sleep(_POLL_SECONDS)


def _locked_by(lock: Path) -> str | None:
    with suppress(OSError), lock.open("r+") as file:
        if not _try_lock(file):
            return file.read().strip() or "unknown"
    return None


def _try_lock(file: TextIO) -> bool:
    """Lock a file unless another process has locked it; return whether this one has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _wait_for_socket(path: Path, child: ChildProcess) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while not (ending := child.ending()):
            with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                return
            await asyncio.sleep(_POLL_SECONDS)
    raise ChildProcessError(f"it ended with {ending}")


async def _wait_for_primary(uri: str) -> None:
    """Initiate the replica set if there is none yet, and wait until it accepts writes."""
    # Used here only: a client that connected before the initiation assumes no session support.
    client = AsyncIOMotorClient[dict[str, Any]](uri, serverSelectionTimeoutMS=5000)
    try:
        while not (hello := await client.admin.command("hello"))["isWritablePrimary"]:
            if "isreplicaset" in hello:  # not a member of a set yet, or not yet known to be one
                await _initiate(client)
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        client.close()


async def _initiate(client: AsyncIOMotorClient[dict[str, Any]]) -> None:
    members = [{"_id": 0, "host": MEMBER}]
    try:
        await client.admin.command("replSetInitiate", {"_id": "registry", "members": members})
    except OperationFailure as error:
        if error.code != 23:  # AlreadyInitialized
            raise
