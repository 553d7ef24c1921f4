"""The process of mongod, which ends with this process, and its log, which is rotated by size."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from registry.mongod import embedded, server_log
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
    async with embedded.bound_process(tuple(sys.argv[2:]), home, Log(home / "log")):
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
    log = Log(tmp_path / "log")
    with log.file:
        async with embedded.bound_process(STUBBORN, tmp_path, log):
            number = number_in(tmp_path / "log")
    wait_until_gone(number)


def test_a_program_that_ignores_its_termination_is_killed_after_its_parent(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", PARENT, tmp_path, *STUBBORN]
    ) as parent:
        number = number_in(tmp_path / "log")
        os.kill(parent.pid, signal.SIGKILL)
        wait_until_gone(number)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a log that is full with ten bytes."""
    monkeypatch.setattr(server_log, "_MAX_BYTES", 10)
    return tmp_path / "mongod.log"


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_a_full_log_is_moved_and_at_most_two_files_are_kept(path: Path) -> None:
    log = Log(path)
    with log.file, path.open("ab", buffering=0) as mongod:
        for number in range(5):
            mongod.write(b"%d" % number * 10)
            log.rotate_if_full()
        mongod.write(b"5")
        log.rotate_if_full()
    assert contents(path) == {
        "mongod.log": b"5",
        "mongod.log.1": b"4444444444",
    }


def test_the_log_is_kept_over_restarts_until_it_is_full(path: Path) -> None:
    for text in (b"01234", b"56789"):
        with Log(path).file as file:
            file.write(text)
    Log(path).file.close()
    assert contents(path) == {"mongod.log": b"", "mongod.log.1": b"0123456789"}


def test_the_error_of_a_start_is_found_after_a_rotation(path: Path) -> None:
    log = Log(path)
    with log.file, path.open("ab", buffering=0) as mongod:
        mongod.write(b"an error of a previous start\n")
        log.begin()
        assert log.first_error() is None
        log.rotate_if_full()
        mongod.write(b'{"s": "I", "msg": "a"}\n{"s": "E", "msg": "b", "attr": {"error": "c"}}\n')
        assert log.first_error() == "b: c"


@pytest.mark.parametrize("line", ["12", '{"a": 1}', "cannot execute"])
def test_a_line_that_is_not_a_log_entry_is_an_error_of_the_start(path: Path, line: str) -> None:
    log = Log(path)
    with log.file, path.open("a") as program:
        program.write(f'{{"s": "I", "msg": "a"}}\n{line}\n')
        program.flush()
        assert log.first_error() == line
