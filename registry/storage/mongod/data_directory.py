"""The data directory of the embedded mongod, which one process at a time may use."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TextIO

from registry.settings import Settings
from registry.start_error import StartError
from registry.storage.mongod.log import Log

_ADVICE = "choose another with --data-dir or REGISTRY_DATA_DIR"

_POLL_SECONDS = 0.005
_PREVIOUS_SECONDS = 30.0
_COMMAND_SECONDS = 3.0  # most commands on the data directory of a stopped service take less


def database_directory(home: Path) -> Path:
    """Return the directory in which mongod stores the database."""
    return home / "mongodb"


def has_data(settings: Settings) -> bool:
    """Return whether a mongod has ever run on `settings.data_dir`. Raises StartError."""
    home = settings.data_dir.absolute()
    with writing(home):
        return (database_directory(home) / "WiredTiger").is_file()


@asynccontextmanager
async def locked(home: Path) -> AsyncIterator[None]:
    """Create the data directory if it is missing, and lock it, at most until this process ends.

    Raises StartError if another process has locked it, or it cannot be written to.
    """
    with writing(home):
        for directory in (home, database_directory(home)):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (home / "lock").open("a+")
    with file:
        await _lock(file, home)
        await _wait_for_previous(database_directory(home) / "mongod.lock")
        yield


async def _lock(file: TextIO, home: Path) -> None:
    deadline = time.monotonic() + _COMMAND_SECONDS
    while not _try_lock(file):
        if time.monotonic() > deadline:
            file.seek(0)
            reason = f"data directory {home} is in use by another registry (process {file.read()})"
            raise StartError(f"{reason}, a service or a command: stop it, or {_ADVICE}")
        await asyncio.sleep(_POLL_SECONDS)
    with writing(home):
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()


@contextmanager
def opened_log(home: Path) -> Iterator[Log]:
    """Open the log of mongod for a new start, and close it at the end. Raises StartError."""
    with writing(home):
        log = Log.open(home / "mongod.log")
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


def _try_lock(file: TextIO) -> bool:
    """Lock a file unless another process has locked it; return whether this one has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def writing(home: Path) -> Iterator[None]:
    """Raise StartError instead of the OSErrors of the block."""
    try:
        yield
    except OSError as error:
        reason = f"cannot write to data directory {home} ({error.strerror})"
        raise StartError(f"{reason}: {_ADVICE}") from error
