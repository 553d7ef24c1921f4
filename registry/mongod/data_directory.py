"""The data directory of the embedded mongod, which one process at a time may use."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

from registry.mongod.server_log import Log
from registry.private_files import open_private
from registry.settings import Settings
from registry.start_error import StartError

_ADVICE = "choose another with --data-dir or REGISTRY_DATA_DIR"

_POLL_SECONDS = 0.005
_PREVIOUS_SECONDS = 30.0
_COMMAND_SECONDS = 3.0  # most commands on the data directory of a stopped service take less


def db_path(data_dir: Path) -> Path:
    """Return the directory in which mongod stores the database."""
    return data_dir / "mongodb"


def has_data(settings: Settings) -> bool:
    """Return whether a mongod has ever run on `settings.data_dir`. Raises StartError."""
    data_dir = settings.data_dir.absolute()
    with start_errors(data_dir):
        return (db_path(data_dir) / "WiredTiger").is_file()


@asynccontextmanager
async def locked(data_dir: Path) -> AsyncIterator[None]:
    """Hold the lock of the data directory, which is created if missing.

    The lock ends with this process at the latest. Raises StartError if another process has locked
    the directory, or it cannot be written to.
    """
    with start_errors(data_dir):
        for directory in (data_dir, db_path(data_dir)):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open_private(data_dir / "lock")
    with file:
        await _lock(file, data_dir)
        await _wait_for_previous(db_path(data_dir) / "mongod.lock")
        yield


async def _lock(file: BinaryIO, data_dir: Path) -> None:
    deadline = time.monotonic() + _COMMAND_SECONDS
    while not _try_lock(file):
        if time.monotonic() > deadline:
            file.seek(0)
            user = f"another registry (process {file.read().decode()}), a service or a command"
            raise StartError(
                f"data directory {data_dir} is in use by {user}: stop it, or {_ADVICE}"
            )
        await asyncio.sleep(_POLL_SECONDS)
    with start_errors(data_dir):
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()


@contextmanager
def opened_log(data_dir: Path) -> Iterator[Log]:
    """Open the log of mongod for a new start, and close it at the end. Raises StartError."""
    with start_errors(data_dir):
        log = Log.open(data_dir / "mongod.log")
        log.begin()
    with log.file:
        yield log


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


def _try_lock(file: IO[Any]) -> bool:
    """Lock a file unless another process has locked it; return whether this one has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def start_errors(data_dir: Path) -> Iterator[None]:
    """Raise StartError instead of the OSErrors of the block."""
    try:
        yield
    except OSError as error:
        reason = f"cannot use data directory {data_dir} ({error.strerror})"
        raise StartError(f"{reason}: {_ADVICE}") from error
