"""A child process: it ends with this process, even if it ignores signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from registry.mongod import child_process
from registry.mongod.child_process import ChildProcess

STUBBORN = ("/bin/sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done")

PARENT = """
import sys
from pathlib import Path
from registry.mongod import child_process
child_process._ORPHAN_SECONDS = 1
child = child_process.ChildProcess(sys.argv[2:], Path(sys.argv[1]), sys.stdout.buffer)
sys.stdin.read()
"""


def wait_until_gone(path: Path) -> None:
    deadline = time.monotonic() + 20
    while path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_program_that_ignores_its_termination_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_STOP_SECONDS", 0.2)
    (tmp_path / "home").mkdir()
    with (tmp_path / "log").open("w+b") as log:
        child = ChildProcess(STUBBORN, tmp_path / "home", log)
        while not (number := (tmp_path / "log").read_text()):
            time.sleep(0.01)
        child.stop()
    wait_until_gone(Path("/proc", number.strip()))


def test_the_signal_that_killed_the_shell_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    command = ("/bin/sh", "-c", "kill -9 $PPID")
    with (tmp_path / "log").open("w+b") as log:
        child = ChildProcess(command, tmp_path / "home", log)
        assert child.wait() == "signal 9 (Killed)"
        child.stop()


def test_a_program_that_ignores_its_termination_is_killed_after_its_parent_was(
    tmp_path: Path,
) -> None:
    (tmp_path / "home").mkdir()
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", PARENT, tmp_path / "home", *STUBBORN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout
        number = int(parent.stdout.readline())
        os.kill(parent.pid, signal.SIGKILL)
        wait_until_gone(Path(f"/proc/{number}"))
