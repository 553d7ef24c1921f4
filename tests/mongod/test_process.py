"""The process of mongod, which ends with this process, and its log, which is rotated by size."""

import asyncio
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


async def test_a_program_that_ignores_its_termination_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_STOP_SECONDS", 0.2)
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


async def test_a_full_log_is_moved_and_at_most_two_files_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_LOG_SECONDS", 0.05)
    monkeypatch.setattr(embedded, "_MAX_LOG_BYTES", 50_000)
    log, old = tmp_path / "mongod.log", tmp_path / "mongod.log.1"
    moved = set[int]()
    async with running(tmp_path) as client, asyncio.timeout(60):
        await client.admin.command({"setParameter": 1, "logLevel": 2})
        while len(moved) < 3:
            await client.admin.command("ping")
            if old.exists():
                moved.add(old.stat().st_ino)
        await client.admin.command({"setParameter": 1, "logLevel": 0})
        assert await waiting.eventually(lambda: log.exists() and log.stat().st_size < 50_000)
    assert logs(tmp_path) == [log, old]
    assert old.stat().st_size >= 50_000
    assert b"Shutting down" in log.read_bytes()


async def test_a_log_is_kept_over_starts_until_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "mongod.log"
    log.write_bytes(b"earlier\n")
    async with running(tmp_path):
        pass
    written = log.read_bytes()
    assert written.startswith(b"earlier\n{")
    monkeypatch.setattr(embedded, "_MAX_LOG_BYTES", 50)
    async with running(tmp_path):
        pass
    assert (tmp_path / "mongod.log.1").read_bytes() == written
