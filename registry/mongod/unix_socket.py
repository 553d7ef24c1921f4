"""The unix socket of the embedded mongod, in a directory that only this user can open."""

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from registry.mongod.data_directory import start_errors
from registry.private_files import is_trusted
from registry.settings import Settings

SOCKET = "mongodb-27017.sock"

MEMBER = f"./{SOCKET}"
"""The member of the replica set. mongod runs in the directory of its socket, so this name, which
is stored with the data, stays valid when they are moved; the leading dot avoids a DNS lookup."""

_MAX_PATH_BYTES = 103
"""Longest path to which macOS can connect; Linux allows 107. mongod binds a relative path."""

_CONNECT_SECONDS = 1.0
"""How long to wait for a mongod, which accepts connections at once unless it is stopped."""

_TEMPORARY_DIR = "/tmp"  # noqa: S108 - a short path; what is made there is private


@contextmanager
def running_uri(settings: Settings) -> Iterator[str | None]:
    """Yield the URI of the mongod that a service runs on `settings.data_dir`; None without one.

    Raises StartError.
    """
    data_dir = settings.data_dir.absolute()
    with start_errors(data_dir):
        directories = [each for each in data_dir.glob("socket-*") if _is_private(each)]
    for directory in directories:
        with socket_uri(directory) as (path, uri):
            if is_listening(path):
                yield uri
                return
    yield None


@contextmanager
def socket_directory(data_dir: Path) -> Iterator[Path]:
    """Create the directory of the socket, and remove it at the end.

    It lasts longer than each mongod, so that nobody can put another in its place. Raises
    StartError.
    """
    with ExitStack() as stack:
        with start_errors(data_dir):
            for found in data_dir.glob("socket-*"):  # after the end of a service by kill -9
                shutil.rmtree(found, ignore_errors=True)
            directory = Path(tempfile.mkdtemp(prefix="socket-", dir=data_dir))  # makes it private
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            stack.enter_context(_kept(directory))
        yield directory


@contextmanager
def socket_uri(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield a path of the socket in a directory, short enough to connect to, and its URI.

    If the own path is too long or not ASCII, the other one leads through a private link. Raises
    StartError.
    """
    with ExitStack() as stack:
        path = directory / SOCKET
        if not str(path).isascii() or len(str(path)) > _MAX_PATH_BYTES:
            with start_errors(directory.parent):
                private = stack.enter_context(
                    tempfile.TemporaryDirectory(
                        prefix="registry-", dir=_TEMPORARY_DIR, ignore_cleanup_errors=True
                    )
                )
                stack.enter_context(_kept(Path(private)))
                link = Path(private, "socket")
                link.symlink_to(directory)
                path = link / SOCKET
        yield path, f"mongodb://{quote(str(path), safe='')}/?directConnection=true"


def is_listening(path: Path) -> bool:
    """Return whether a process accepts connections at a socket."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT_SECONDS)  # a stopped mongod accepts nothing
        client.connect(str(path))
        return True
    return False


def _is_private(directory: Path) -> bool:
    with suppress(FileNotFoundError):  # its service has just stopped
        status = directory.lstat()
        is_open = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        return stat.S_ISDIR(status.st_mode) and not is_open and is_trusted(status, directory.parent)
    return False


@contextmanager
def _kept(directory: Path) -> Iterator[None]:
    """Keep systemd-tmpfiles from removing old files in a directory: it skips those with a lock."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
