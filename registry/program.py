"""The program and its user: how it was installed and started, what it tells, private files.

Private files are those that only this user may read and write, where other users may have put files
as well.
"""

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO

from platformdirs import user_data_path

_ROOT = Path(__file__).parents[1]

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which prometheus-client finds the metrics that several processes share."""

IS_CHECKOUT = (_ROOT / "setup.py").is_file()
"""Whether this package is in a checkout of the repository, where scripts run the commands."""

DATA_DIR = _ROOT / "data" if IS_CHECKOUT else user_data_path("registry", appauthor=False)
"""The default data directory: `data` in a checkout; otherwise that of the user, on Linux in
`XDG_DATA_HOME` or `~/.local/share`."""

SWAGGER_UI = Path(__file__).with_name("openapi") / "swagger-ui"
"""The directory of the required version, if scripts/swagger-ui has installed it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters of terminals, and characters that end a line or change its direction."""


class StartError(Exception):
    """The process cannot continue.

    The message is one line with the reason and, if there is one, the remedy. Its control characters
    are escaped. status: the exit status.
    """

    status = 1

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class InvalidSetting(StartError):
    """The value of a setting is wrong."""

    status = 2


def printable(text: str) -> str:
    r"""Return a text as one line, its control characters escaped: `\x1b` for ESC."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def note(line: str, end: str = "\n") -> None:
    r"""Write a line for the user, which is not part of the output, to standard error.

    end: with `\r`, the next line takes its place on a terminal.
    """
    if sys.stderr is not None:  # as it is if closed; print would then write to standard output
        clear = "\x1b[K" if sys.stderr.isatty() else ""
        print(clear + printable(line), end=end, file=sys.stderr, flush=True)  # noqa: T201 - its purpose


def program() -> str:
    """Return how the user has started this program: `registry` or `python -m registry`."""
    name = Path(sys.argv[0]).name
    return "python -m registry" if name == "__main__.py" else name


def command(name: str) -> list[str]:
    """Return the words by which a command, such as `token`, can be run in this installation."""
    if IS_CHECKOUT:
        return ["./scripts/registry", name]
    program = ["registry"] if shutil.which("registry") else [sys.executable, "-m", "registry"]
    return [*program, name]


def is_default(data_dir: Path) -> bool:
    """Return whether commands use this data directory if they are not told another one."""
    return data_dir.absolute() == DATA_DIR


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
