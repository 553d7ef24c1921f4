"""The disk of the embedded mongod."""

from pathlib import Path
from shutil import disk_usage

RESERVE_BYTES = 64 * 2**20
"""With less free space, the service refuses changes.

mongod aborts if it cannot write, and reads end with it. The reserve is for what it writes after the
last change: the rest of the changes in progress, and the next checkpoint.
"""

START_BYTES = 32 * 2**20
"""With less free space, mongod cannot be relied on to start."""


def has_space(directory: Path, wanted: int) -> bool:
    """Return whether the disk of a directory has this many bytes free. Raises OSError."""
    return disk_usage(directory).free >= wanted
