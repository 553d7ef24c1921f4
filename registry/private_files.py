"""Files that only this user may read and write, where other users may have put files as well."""

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO


@contextmanager
def new_file(path: Path, *, replaces: bool = False) -> Iterator[IO[bytes]]:
    """Yield a file for writing and reading that gets its name only if nothing is raised.

    Only its owner may read it. replaces: whether it may take the place of another file, at once.
    Raises FileExistsError, and other OSErrors.
    """
    if not replaces:
        _require_free(path)
    # A new name each time, as another user may have put a link where one could be expected.
    descriptor, name = tempfile.mkstemp(".partial", f"{path.name}.", path.parent)
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "wb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not replaces:
            _require_free(path)  # still
        partial.rename(path)
    except BaseException:
        with suppress(FileNotFoundError):
            partial.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _require_free(path: Path) -> None:
    if path.exists():
        raise FileExistsError(f"{path} exists: choose another name or remove it")


def open_private(path: Path) -> BinaryIO:
    """Open a file for reading and appending; create it if it is missing.

    Raises OSError, also for a symbolic link or a file of another user.
    """
    return open(path, "a+b", opener=_open_private)


def is_trusted(status: os.stat_result, directory: Path) -> bool:
    """Return whether a file in a directory is of this user, or of the owner of the directory.

    The latter could replace it anyway, and is the owner on some network file systems. Raises
    OSError.
    """
    return status.st_uid in (os.geteuid(), directory.stat().st_uid)


def _open_private(path: str, flags: int) -> int:
    if Path(path).is_symlink():  # O_NOFOLLOW would only say that there are too many of them
        raise OSError(errno.ELOOP, f"{path} is a symbolic link")
    descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o600)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not is_trusted(status, Path(path).parent):
            raise PermissionError(errno.EPERM, f"{path} is not a file of this user")
        is_own = status.st_uid == os.geteuid()
        if is_own and stat.S_IMODE(status.st_mode) != 0o600:  # of an earlier version
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
