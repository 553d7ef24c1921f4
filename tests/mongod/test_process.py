"""The process of mongod, which ends with this process, and its log, which is rotated by size."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from registry.mongod import embedded
from tests import waiting
from tests.mongods import running
from tests.system.service import eventually

STUBBORN = ("/bin/sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done")

FULL = 17_000_000
"""Bytes of a log that is full; the file system stores no zeros."""

PARENT = """
import asyncio, sys
from pathlib import Path
from registry.mongod import embedded
async def main():
    home = Path(sys.argv[1])
    with (home / "log").open("ab") as log:
        async with embedded.bound_process(tuple(sys.argv[2:]), home, log):
            await asyncio.Event().wait()
asyncio.run(main())
"""


def number_in(log: Path) -> int:
    """Return the process id that the program writes first."""
    assert eventually(lambda: log.exists() and log.read_text().endswith("\n"))
    return int(log.read_text())


def wait_until_gone(number: int) -> None:
    assert eventually(lambda: not Path(f"/proc/{number}").exists())


@pytest.mark.slow
async def test_a_program_that_ignores_its_termination_is_killed(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as log:
        async with embedded.bound_process(STUBBORN, tmp_path, log):
            number = number_in(tmp_path / "log")
    wait_until_gone(number)


def test_a_program_is_terminated_after_its_parent_was_killed(tmp_path: Path) -> None:
    program = ("/bin/sh", "-c", "echo $$; exec sleep 600")
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", PARENT, tmp_path, *program]
    ) as parent:
        number = number_in(tmp_path / "log")
        os.kill(parent.pid, signal.SIGKILL)
        wait_until_gone(number)


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("mongod.log*"))


@pytest.mark.slow
async def test_a_full_log_is_moved_and_at_most_two_files_are_kept(tmp_path: Path) -> None:
    log, old = tmp_path / "mongod.log", tmp_path / "mongod.log.1"
    async with running(tmp_path):
        for _ in range(2):
            os.truncate(log, FULL)
            assert await waiting.eventually(lambda: log.exists() and log.stat().st_size < FULL)
    assert logs(tmp_path) == [log, old]
    assert old.stat().st_size >= FULL
    assert b"Shutting down" in log.read_bytes()


async def test_a_log_is_kept_over_starts_until_it_is_full(tmp_path: Path) -> None:
    log = tmp_path / "mongod.log"
    log.write_bytes(b"earlier\n")
    async with running(tmp_path):
        pass
    written = log.read_bytes()
    assert written.startswith(b"earlier\n{")
    os.truncate(log, FULL)
    async with running(tmp_path):
        pass
    assert (tmp_path / "mongod.log.1").read_bytes().rstrip(b"\0") == written
