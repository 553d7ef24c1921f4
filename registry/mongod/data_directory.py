"""The data directory of the embedded mongod: its lock, its disk, and the socket of mongod in it."""

import asyncio
import fcntl
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from motor.motor_asyncio import AsyncIOMotorClient

from registry.metrics import DISK_FREE
from registry.program import StartError, is_trusted, open_private
from registry.settings import Settings

RESERVE_BYTES = 64 * 2**20
"""With less free space, the service refuses changes.

mongod aborts if it cannot write, and reads end with it. The reserve is for what it writes after the
last change: the rest of the changes in progress, and the next checkpoint.
"""

MEMBER = "./mongodb-27017.sock"
"""The member of the replica set. mongod runs in the directory of its socket, so this name, which
is stored with the data, stays valid when they are moved; the leading dot avoids a DNS lookup."""

PRIMARY = "primary.sock"
"""The link to it by which clients connect. It exists while mongod is the primary: on a connection
that was opened before, the driver would refuse all sessions for ever."""

_MAX_PATH_BYTES = 103
"""Longest path to which macOS can connect; Linux allows 107. mongod binds a relative path."""

_TEMPORARY_DIR = "/tmp"  # noqa: S108 - a short path; what is made there is private

_ADVICE = "choose another with --data-dir or REGISTRY_DATA_DIR"

_POLL_SECONDS = 0.005

_LOCK_SECONDS = 15.0
"""How long to wait for the lock: for a command, or the mongod of a service that was killed."""

_CONNECT_SECONDS = 1.0
"""How long to wait for a mongod, which accepts connections at once unless it is stopped."""

_CHECK_SECONDS = 1.0
"""How often free space is checked, which takes microseconds."""


def db_path(data_dir: Path) -> Path:
    """Return the directory where mongod stores the database."""
    return data_dir / "mongodb"


def has_space(directory: Path, wanted: int) -> bool:
    """Return whether the disk of a directory has this many bytes free. Raises OSError."""
    return shutil.disk_usage(directory).free >= wanted


def has_data(settings: Settings) -> bool:
    """Return whether a mongod has ever run on `settings.data_dir`. Raises StartError."""
    data_dir = settings.data_dir.absolute()
    with start_errors(data_dir):
        return (db_path(data_dir) / "WiredTiger").is_file()


@asynccontextmanager
async def locked(data_dir: Path) -> AsyncIterator[BinaryIO]:
    """Yield the lock of the data directory, which is created if missing.

    The lock lasts until this process, and those that inherit the file, have closed it. Raises
    StartError if another process keeps it, or the directory cannot be written to.
    """
    with start_errors(data_dir):
        for directory in (data_dir, db_path(data_dir)):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open_private(data_dir / "lock")
    with file:
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    reason = f"data directory {data_dir} is in use by another registry"
                    advice = f"a service or a command: stop it, or {_ADVICE}"
                    raise StartError(f"{reason}, {advice}") from None
            await asyncio.sleep(_POLL_SECONDS)
        yield file


@contextmanager
def running_uri(settings: Settings) -> Iterator[str | None]:
    """Yield the URI of the mongod that a service runs on `settings.data_dir`; None without one.

    Raises StartError.
    """
    data_dir = settings.data_dir.absolute()
    with start_errors(data_dir):
        is_private = _is_private(db_path(data_dir))
    with socket_directory(data_dir) as directory:
        path = directory / PRIMARY
        yield uri_of(path) if is_private and is_listening(path) else None


@contextmanager
def socket_directory(data_dir: Path) -> Iterator[Path]:
    """Yield a path of the directory of the data, where the socket is, short enough for clients.

    If its own path is too long or not ASCII, the other one is a private link. Raises StartError.
    """
    directory = db_path(data_dir)
    if str(directory).isascii() and len(str(directory / MEMBER)) <= _MAX_PATH_BYTES:
        yield directory
        return
    with start_errors(data_dir):
        private = tempfile.TemporaryDirectory(
            prefix="registry-", dir=_TEMPORARY_DIR, ignore_cleanup_errors=True
        )
    with private as name, ExitStack() as stack:
        # Keeps systemd-tmpfiles from removing it when it is old: it skips those with a lock.
        descriptor = os.open(name, os.O_RDONLY)
        stack.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        link = Path(name, "mongodb")
        link.symlink_to(directory)
        yield link


def uri_of(path: Path) -> str:
    """Return the URI of a mongod at a socket."""
    return f"mongodb://{quote(str(path), safe='')}/?directConnection=true"


def is_listening(path: Path) -> bool:
    """Return whether a process accepts connections at a socket."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT_SECONDS)  # a stopped mongod accepts nothing
        client.connect(str(path))
        return True
    return False


def _is_private(directory: Path) -> bool:
    """Return whether only this user can have put a socket there."""
    with suppress(FileNotFoundError):  # its service has just stopped
        status = directory.lstat()
        is_open = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        return stat.S_ISDIR(status.st_mode) and not is_open and is_trusted(status, directory.parent)
    return False


@contextmanager
def start_errors(data_dir: Path) -> Iterator[None]:
    """Raise StartError instead of the OSErrors of the block."""
    try:
        yield
    except OSError as error:
        reason = f"cannot use data directory {data_dir} ({error.strerror})"
        raise StartError(f"{reason}: {_ADVICE}") from error


class DiskSpace:
    """Checks the disk of the embedded mongod in the background.

    is_enough: whether there is space for changes.
    """

    def __init__(self) -> None:
        self.is_enough = True
        self._timer: asyncio.TimerHandle | None = None

    async def watch(self, client: AsyncIOMotorClient[Any]) -> None:
        """Begin to check the disk if the mongod is embedded. Raises PyMongoError."""
        if (await client.admin.command("hello")).get("me") == MEMBER:
            options = await client.admin.command("getCmdLineOpts")
            self._check(Path(options["parsed"]["storage"]["dbPath"]))

    def close(self) -> None:
        """End the checks."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self, directory: Path) -> None:
        with suppress(OSError):
            free = shutil.disk_usage(directory).free
            self.is_enough = free >= RESERVE_BYTES
            DISK_FREE.labels(str(directory)).set(free)
        self._timer = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check, directory)
