"""The commands `backup` and `restore`, as an operator runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.conftest import Start
from tests.system.service import (
    COMMAND,
    environment,
    error_message,
    person,
    run_command,
)


def run(*arguments: str | Path) -> str:
    """Run a command of the service, which must succeed; return its messages."""
    done = run_command([*COMMAND, *arguments], environment())
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def test_a_backup_of_a_running_service_is_restored_into_another_directory(
    start: Start, tmp_path: Path
) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    file, options = tmp_path / "registry.backup", ("--data-dir", data)
    service = start(data_dir=data)
    service.request("/persons", person("Grace"))
    before = service.request("/persons")["data"]

    assert run("backup", *options, file) == f"Wrote 2 counters, 1 persons to {file}\n"
    service.request("/persons", person("Ada"))
    assert "Restored 2 counters, 1 persons from the backup of 20" in run(
        "restore", "--data-dir", other, file
    )

    in_use = error_message([*COMMAND, "restore", *options, file], environment())
    assert in_use == f"registry: a service uses the data directory {data}: stop it first\n"
    exists = error_message([*COMMAND, "backup", *options, file], environment())
    assert exists.startswith(f"registry: cannot write the backup: {file} exists: ")
    not_empty = error_message([*COMMAND, "restore", "--data-dir", other, file], environment())
    assert "the database registry is not empty" in not_empty
    assert service.stop() == 0

    restored = start(data_dir=other)
    assert restored.request("/persons")["data"] == before


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_wrong_arguments_are_reported_in_one_line(
    command: str, tmp_path: Path, mongodb_uri: str
) -> None:
    assert "FILE" in error_message([*COMMAND, command], environment())
    missing = tmp_path / "missing" / "file"
    message = error_message(
        [*COMMAND, command, "--mongodb-uri", mongodb_uri, missing], environment()
    )
    assert f"{missing}" in message
    assert message.endswith(": No such file or directory\n")
