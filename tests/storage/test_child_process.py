"""The process of mongod: it ends with this process, even if it ignores signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from registry.mongod import embedded
from registry.mongod.server_log import Log
from tests.system.service import eventually

STUBBORN = ("/bin/sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done")

PARENT = """
import asyncio, sys
from pathlib import Path
from registry.mongod import embedded
from registry.mongod.server_log import Log
embedded._ORPHAN_SECONDS = 1
async def main():
    home = Path(sys.argv[1])
    async with embedded.bound_process(tuple(sys.argv[2:]), home, Log.open(home / "log")):
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
    log = Log.open(tmp_path / "log")
    with log.file:
        async with embedded.bound_process(STUBBORN, tmp_path, log):
            number = number_in(tmp_path / "log")
    wait_until_gone(number)


def test_a_program_that_ignores_its_termination_is_killed_after_its_parent_was(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", PARENT, tmp_path, *STUBBORN]
    ) as parent:
        number = number_in(tmp_path / "log")
        os.kill(parent.pid, signal.SIGKILL)
        wait_until_gone(number)
