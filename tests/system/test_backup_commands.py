"""The commands `backup` and `restore`, as an operator runs them."""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from gzip import compress
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from pymongo import MongoClient

from registry.operations.backups import Backup
from registry.settings import Settings
from registry.testing import new_name
from tests import programs
from tests.conftest import Grant
from tests.system.conftest import Start
from tests.system.service import COMMAND, environment, error_message, person, run_command


def run(*arguments: str | Path) -> str:
    """Run a command of the service, which must succeed; return its messages."""
    done = run_command([*COMMAND, *arguments], environment())
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


@pytest.mark.slow
def test_a_backup_of_a_running_service_is_restored_elsewhere(start: Start, tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    file, options = tmp_path / "registry.backup", ("--data-dir", data)
    service = start(data_dir=data)
    service.request("/persons", person("Grace"))
    before = service.request("/persons")["data"]

    assert run("backup", *options, file) == f"Wrote 3 counters, 1 person of {data} to {file}\n"
    service.request("/persons", person("Ada"))
    message = run("restore", "--data-dir", other, file).splitlines()[0]
    assert message.startswith("Restored 3 counters, 1 person from the backup of 20")
    assert message.endswith(f" into {other}")

    in_use = error_message([*COMMAND, "restore", *options, file], environment())
    assert in_use == f"registry: a service uses the data directory {data}: stop it first\n"
    exists = error_message([*COMMAND, "backup", *options, file], environment())
    assert exists.startswith(f"registry: cannot write the backup: {file} exists: ")
    not_empty = error_message([*COMMAND, "restore", "--data-dir", other, file], environment())
    assert "the database registry is not empty" in not_empty
    assert service.stop() == (0, "")

    restored = start(data_dir=other)
    assert restored.request("/persons")["data"] == before


@pytest.mark.slow
def test_a_backup_without_resources_says_so(start: Start, tmp_path: Path) -> None:
    start(data_dir=tmp_path / "data")
    said = run("backup", "--data-dir", tmp_path / "data", tmp_path / "file")
    assert said.splitlines()[1:] == [
        "Warning: the backup has no person and no computer: is this the right database?"
    ]


@pytest.fixture
def other(drop: Callable[[str], object]) -> Iterator[str]:
    """The name of a database that does not exist."""
    yield (name := new_name())
    drop(name)


async def test_a_restore_lists_the_tokens_that_are_valid(
    mongodb_uri: str, settings: Settings, other: str, tmp_path: Path, grant: Grant
) -> None:
    now = datetime.now(UTC)
    await grant("read")
    await grant("read", revoked=now)
    await grant("read", expires=now)
    await grant("write", expires=now + timedelta(hours=1))
    file, options = tmp_path / "registry.backup", ("--mongodb-uri", mongodb_uri, "--database")
    await asyncio.to_thread(run, "backup", *options, settings.database, file)

    without = await asyncio.to_thread(run, "restore", "--without-tokens", *options, other, file)
    assert without.startswith("Restored no documents from the backup of ")
    assert without.endswith("\nValid access tokens: none\n")
    message = await asyncio.to_thread(run, "restore", *options, other, file)
    assert message.splitlines()[1:] == [
        "Valid access tokens: 0, 3: revoke those that have been revoked since the backup"
    ]


def test_names_in_backups_are_safe(tmp_path: Path, mongodb_uri: str, settings: Settings) -> None:
    file, name = tmp_path / "registry.backup", "\x1b]0;title\x07\n\u202e"
    header = {"format": 2, "time": "2026-01-01T00:00:00Z"}
    documents: list[Any] = [header, {"collection": name}, {"_id": 1}, {}, {}]
    file.write_bytes(compress(b"".join(encode(document) for document in documents)))
    arguments = ("restore", "--mongodb-uri", mongodb_uri, "--database", settings.database, file)

    shown = r"\x1b]0;title\x07\n\u202e"
    assert run(*arguments).splitlines() == [
        f"Restored 1 {shown} from the backup of 2026-01-01T00:00:00Z into the database "
        f"{settings.database} at {mongodb_uri}",
        "Valid access tokens: none",
    ]
    message = error_message([*COMMAND, *arguments], environment())
    assert message.endswith(f"is not empty: it has {shown}\n")


@pytest.mark.slow
def test_a_backup_is_written_to_a_pipe_and_restored_from_one(
    tmp_path: Path, mongodb_uri: str, settings: Settings, other: str
) -> None:
    with MongoClient[Any](mongodb_uri) as client:
        client[other].persons.insert_many({"_id": id_} for id_ in range(1, 1_001))
    options = ("--mongodb-uri", mongodb_uri, "--database")
    copying = ("bash", "-c", '"$@" | tee "$0"', tmp_path / "backup")
    backup = (*copying, *COMMAND, "backup", *options, other, "-")
    restoring = ("bash", "-c", '"$@" <"$0"', tmp_path / "backup")
    restore = (*restoring, *COMMAND, "restore", *options, settings.database, "-")
    notes = [
        programs.run(shell, env=environment(), check=True, encoding="latin-1").stderr
        for shell in (backup, restore)
    ]
    assert notes[0] == f"Wrote 1,000 persons of the database {other} at {mongodb_uri} to -\n"
    assert notes[1].startswith("Restored 1,000 persons from the backup of ")
    with FileIO(tmp_path / "backup") as file:
        assert Backup(file).manifest.documents == {"persons": 1_000}


@pytest.mark.parametrize("command", ["backup", "restore"])
def test_wrong_arguments_are_one_line(command: str, tmp_path: Path, mongodb_uri: str) -> None:
    assert "FILE" in error_message([*COMMAND, command], environment(), status=2)
    missing = tmp_path / "missing" / "file"
    message = error_message(
        [*COMMAND, command, "--mongodb-uri", mongodb_uri, missing], environment()
    )
    assert f"{missing}" in message
    assert message.endswith(": No such file or directory\n")
