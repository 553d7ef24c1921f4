"""The embedded mongod: its files, its exit, and the messages when it cannot start."""

import asyncio
import errno
import fcntl
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

import pytest
from pymongo.errors import OperationFailure

from registry.mongod import data_directory, embedded
from registry.mongod.data_directory import running_uri
from registry.settings import Settings
from tests.mongods import SOCKET, client_of, program_of, running, start_error
from tests.programs import required_program
from tests.support import Database

NAMES = ("plain", pytest.param("x" * 130, marks=pytest.mark.slow))
"""Of data directories: in the second, the path of the socket is too long for clients."""


def is_free(data_dir: Path) -> bool:
    """Return whether no mongod has locked the data."""
    with (data_dir / "mongodb" / "mongod.lock").open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory with a path short enough for a socket, unlike tmp_path."""
    with TemporaryDirectory(dir="/tmp") as path:
        yield Path(path)


def mode(path: Path) -> str:
    return stat.filemode(path.stat().st_mode)


def matches(directory: Path, pattern: str) -> list[Path]:
    return list(directory.glob(pattern))


def clean(tmpfiles: str, rules: Path) -> None:
    subprocess.run([tmpfiles, "--clean", rules], check=True, timeout=30)  # noqa: S603 - as a timer does


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


async def start_and_stop(data_dir: Path) -> None:
    async with running(data_dir):
        pass


async def test_mongod_has_the_options_of_the_service(database: Database) -> None:
    with pytest.raises(OperationFailure, match=r"(?i)script"):
        await database.persons.find_one({"$where": "true"})
    admin = database.client.admin
    hello = await admin.command("hello", compression=["snappy", "zstd", "zlib"])
    assert "compression" not in hello
    oplog = await database.client.local.command("collStats", "oplog.rs")
    assert oplog["maxSize"] == embedded.OPLOG_MB * 2**20


async def test_a_backup_may_take_longer_than_mongod_keeps_a_snapshot(database: Database) -> None:
    async def kept_seconds() -> int:
        name = "minSnapshotHistoryWindowInSeconds"
        reply = await database.client.admin.command({"getParameter": 1, name: 1})
        return int(reply[name])

    async with embedded.long_snapshots(database.client):
        assert await kept_seconds() == 3_600
    assert await kept_seconds() == 300


@pytest.mark.parametrize("name", [*NAMES[1:], "ä,b:c [d]@e%41?f&g=h#'\"$(i)`j`;k\\l\udcff"])
async def test_commands_find_mongod_in_a_moved_directory_of_any_name(
    name: str, short_path: Path
) -> None:
    async with running(short_path / "first") as client:
        await client.registry.notes.insert_one({})
    moved = (short_path / "first").rename(short_path / name)
    settings = Settings(data_dir=moved)
    async with running(moved):
        with running_uri(settings) as uri:
            assert uri is not None
            async with client_of(uri) as client:
                assert await client.registry.notes.count_documents({}) == 1
    with running_uri(settings) as uri:
        assert uri is None
    assert sorted(path.name for path in moved.iterdir()) == ["lock", "mongod.log", "mongodb"]


async def test_only_this_user_can_reach_mongod_and_there_is_no_tcp_port(tmp_path: Path) -> None:
    home, reasons = tmp_path / "new" / "data", list[str]()
    async with embedded.mongod(Settings(data_dir=home), reasons.append) as uri:
        path = Path(unquote(urlsplit(uri).netloc))
        async with client_of(uri) as client:
            net = (await client.admin.command("getCmdLineOpts"))["parsed"]["net"]
        assert [mode(place) for place in (home, path.parent, path)] == [
            "drwx------",
            "drwx------",
            "srwx------",
        ]
        assert net["bindIp"] == SOCKET
    assert reasons == [], "its end is expected"


@pytest.mark.slow
async def test_a_command_ignores_a_socket_that_others_may_have_replaced(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    directory = tmp_path / "mongodb"
    async with running(tmp_path):
        directory.chmod(0o770)
        with running_uri(settings) as uri:
            assert uri is None
        directory.chmod(0o700)
        moved = directory.rename(tmp_path / "moved")
        directory.symlink_to(moved)
        with running_uri(settings) as uri:
            assert uri is None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_systemd_tmpfiles_keeps_the_socket(
    name: str, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmpfiles = required_program("systemd-tmpfiles", "it may remove the socket")
    temporary, data_dir, rules = short_path / "tmp", short_path / name, short_path / "rules"
    temporary.mkdir()
    monkeypatch.setattr(data_directory, "_TEMPORARY_DIR", str(temporary))
    async with embedded.mongod(Settings(data_dir=data_dir)) as uri:
        for directory in (temporary, data_dir):
            (directory / "old").mkdir()
        # Everything in the directories is old enough to be removed, except the data.
        rules.write_text(
            f"e {temporary} - - - 0\ne {data_dir} - - - 0\nx {data_dir}/mongodb - - - -\n"
        )
        clean(tmpfiles, rules)
        assert not matches(short_path, "*/old")
        async with client_of(uri) as client:
            assert await client.registry.notes.count_documents({}) == 0


@pytest.mark.parametrize("name", ["lock", "mongod.log"])
async def test_a_link_in_place_of_a_file_of_the_service_is_not_followed(
    name: str, tmp_path: Path
) -> None:
    data_dir, precious = tmp_path / "data", tmp_path / "precious"
    data_dir.mkdir()
    precious.write_text("precious")
    (data_dir / name).symlink_to(precious)
    message = await start_error(data_dir)
    assert f"{data_dir / name} is a symbolic link" in message
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_end_of_mongod_is_reported(number: signal.Signals, tmp_path: Path) -> None:
    reasons: asyncio.Queue[str] = asyncio.Queue()
    async with embedded.mongod(Settings(data_dir=tmp_path), reasons.put_nowait):
        os.kill(int((tmp_path / "mongodb" / "mongod.lock").read_text()), number)
        reason = await asyncio.wait_for(reasons.get(), 60)
    assert re.fullmatch(
        rf"mongod has ended: .+ \(its log is {re.escape(str(tmp_path))}/mongod\.log\)", reason
    )
    assert reasons.empty()
    assert is_free(tmp_path)


async def test_a_process_that_cannot_be_created_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_memory(*_: object, **_options: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", no_memory)
    assert "mongod does not start: [Errno 12] Cannot" in await start_error(tmp_path)


@pytest.mark.slow
async def test_a_start_waits_for_a_command_that_uses_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path):
        waiting = asyncio.create_task(start_and_stop(tmp_path))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        monkeypatch.setattr(data_directory, "_LOCK_SECONDS", 0.0)
        assert "in use by another registry" in await start_error(tmp_path)
    await waiting


async def test_a_mongod_that_is_still_stopping_keeps_the_lock(tmp_path: Path) -> None:
    sleeping = ("/bin/sh", "-c", "exec sleep 600")
    with (tmp_path / "log").open("ab") as log:
        async with data_directory.locked(tmp_path) as lock:
            kept = embedded.bound_process(sleeping, tmp_path, log, inherited=(lock.fileno(),))
            await kept.__aenter__()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), data_directory.locked(tmp_path):
                pass
        await kept.__aexit__(None, None, None)
    async with data_directory.locked(tmp_path):
        pass


@pytest.mark.parametrize("place", ["file/data", "file"])
async def test_an_unwritable_directory_is_rejected(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = await start_error(tmp_path / place)
    assert message.startswith(f"cannot use data directory {tmp_path / place} (")
    assert "REGISTRY_DATA_DIR" in message


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec not-installed", "status 127: it is missing, or a library that it needs"),
        ("exit 3", "status 3"),
        ("kill -ILL $$", "signal 4 (Illegal instruction): this processor may lack AVX"),
    ],
)
async def test_the_reason_for_a_failed_start_is_reported(
    script: str, reason: str, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    message = await start_error(data_dir, program(tmp_path / "mongod", f"echo why\n{script}"))
    assert message.startswith(f"mongod does not start: {reason}")
    log = data_dir / "mongod.log"
    assert message.endswith(f" (its log is {log})")
    assert log.read_text().startswith("why\n")


async def test_a_mongod_that_never_becomes_ready_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "START_SECONDS", 0.2)
    message = await start_error(tmp_path / "data", program(tmp_path / "mongod", "exec sleep 60"))
    assert "mongod does not start: it was not ready after 0.2 s" in message


@pytest.mark.parametrize("name", ["nothing", ".", "file"])
async def test_a_mongod_that_is_not_executable_is_rejected(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not executable" in await start_error(tmp_path / "data", tmp_path / name)


async def test_mongod_is_the_configured_one_then_the_wheel_then_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("configured", "mongod"):
        program(tmp_path / name, f"echo registry-{name}; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path))
    log = tmp_path / "data" / "mongod.log"
    await start_error(tmp_path / "data", Path("configured"))
    assert log.read_text() == "registry-configured\n"
    async with embedded.mongod(Settings(data_dir=tmp_path / "data")) as uri:
        assert (await program_of(uri)).endswith("fiftyone/db/bin/mongod")
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    await start_error(tmp_path / "data")
    assert log.read_text().endswith("\nregistry-mongod\n")
    monkeypatch.setenv("PATH", "")
    message = await start_error(tmp_path / "data")
    assert message.startswith("no mongod: install the extra `embedded`")
    assert "REGISTRY_MONGOD" in message
    assert "MONGODB_URI" in message
