"""The unix socket of the embedded mongod, in a directory that only this user can open."""

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from registry.settings import Settings
from registry.storage.mongod.data_directory import start_errors

SOCKET = "mongodb-27017.sock"

MEMBER = f"./{SOCKET}"
"""The member of the replica set. mongod runs in the directory of its socket, so this name, which
is stored with the data, stays valid when they are moved; the leading dot avoids a DNS lookup."""

_MAX_DATA_DIR_LENGTH = 60
"""Maximum characters of a data directory that contains the socket, whose path is limited to 103
bytes (macOS) or 107 (Linux)."""


def running_uri(settings: Settings) -> str | None:
    """Return the URI of the mongod that a service runs on `settings.data_dir`; None without one.

    Raises StartError.
    """
    data_dir = settings.data_dir.absolute()
    with start_errors(data_dir):
        directories = list(data_dir.glob("socket-*"))
    for directory in directories:
        with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            path = (directory.readlink() if directory.is_symlink() else directory) / SOCKET
            client.connect(str(path))
            # In /tmp, somebody else may have taken the name of a socket that is left over.
            if path.stat().st_uid == data_dir.stat().st_uid:
                return uri_of(path)
    return None


def uri_of(path: Path) -> str:
    """Return the URI of a mongod with this socket."""
    return f"mongodb://{quote(str(path), safe='')}/?directConnection=true"


@contextmanager
def socket_directory(data_dir: Path) -> Iterator[Path]:
    """Create the directory of the socket; if it is not in `data_dir`, a link there leads to it."""
    with start_errors(data_dir):
        for found in data_dir.glob("socket-*"):  # after a system crash
            if found.is_symlink():
                found.unlink()
            else:
                shutil.rmtree(found, ignore_errors=True)
        plain = str(data_dir).isascii() and len(str(data_dir)) <= _MAX_DATA_DIR_LENGTH
        # mkdtemp makes it private.
        parent = data_dir if plain else "/tmp"  # noqa: S108 - a short path
        directory = Path(tempfile.mkdtemp(prefix="socket-", dir=parent))
        link = data_dir / directory.name
        if not plain:
            link.symlink_to(directory)
    try:
        yield directory
    finally:
        if not plain:
            link.unlink(missing_ok=True)
