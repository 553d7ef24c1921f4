"""The log of mongod: rotated by size, while mongod has it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from registry.mongod import server_log as log_module
from registry.mongod.server_log import Log


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a log that is full with ten bytes."""
    monkeypatch.setattr(log_module, "_MAX_BYTES", 10)
    return tmp_path / "mongod.log"


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_a_full_log_is_moved_and_at_most_three_files_are_kept(path: Path) -> None:
    log = Log.open(path)
    with log.file, path.open("ab", buffering=0) as mongod:
        for number in range(5):
            mongod.write(b"%d" % number * 10)
            log.rotate_if_full()
        mongod.write(b"5")
        log.rotate_if_full()
    assert contents(path) == {
        "mongod.log": b"5",
        "mongod.log.1": b"4444444444",
        "mongod.log.2": b"3333333333",
    }


def test_a_log_that_is_full_when_the_service_starts_is_moved(path: Path) -> None:
    path.write_bytes(b"0123456789")
    Log.open(path).file.close()
    assert contents(path) == {"mongod.log": b"", "mongod.log.1": b"0123456789"}


def test_the_error_of_a_start_is_found_after_a_rotation(path: Path) -> None:
    log = Log.open(path)
    with log.file, path.open("ab", buffering=0) as mongod:
        mongod.write(b"an error of a previous start\n")
        log.begin()
        assert log.first_error() is None
        log.rotate_if_full()
        mongod.write(b'{"s": "I", "msg": "a"}\n{"s": "E", "msg": "b", "attr": {"error": "c"}}\n')
        assert log.first_error() == "b: c"


@pytest.mark.parametrize("line", ["12", '{"a": 1}', "cannot execute"])
def test_a_line_that_is_not_a_log_entry_is_an_error_of_the_start(path: Path, line: str) -> None:
    log = Log.open(path)
    with log.file, path.open("a") as program:
        program.write(f'{{"s": "I", "msg": "a"}}\n{line}\n')
        program.flush()
        assert log.first_error() == line
