"""New files, which get their name when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file for writing and reading that gets its name only if nothing is raised.

    Only its owner may read it. Raises FileExistsError, and other OSErrors.
    """
    if path.exists():
        raise FileExistsError(f"{path} exists: choose another name or remove it")
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "wb+", opener=_open_private) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
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


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # may have digests of tokens, and e-mail addresses
