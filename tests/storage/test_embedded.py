"""The embedded mongod: its files, its exit, and the messages when it cannot start."""

import asyncio
import errno
import fcntl
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

import pytest
from pymongo.errors import OperationFailure

from registry import supervision
from registry.mongod import data_directory, embedded
from registry.mongod.data_directory import is_listening, running_uri
from registry.settings import Settings
from tests.mongods import SOCKET, Client, client_of, running, start_error
from tests.programs import required_program
from tests.storage.waiting import eventually
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


async def binary(client: Client) -> str:
    options = await client.admin.command("getCmdLineOpts")
    path: str = options["argv"][0]
    return path


async def test_mongod_has_the_options_of_the_service(database: Database) -> None:
    with pytest.raises(OperationFailure, match=r"(?i)script"):
        await database.persons.find_one({"$where": "true"})
    admin = database.client.admin
    hello = await admin.command("hello", compression=["snappy", "zstd", "zlib"])
    assert "compression" not in hello
    status = await admin.command({"serverStatus": 1, "oplogTruncation": 1})
    assert status["oplogTruncation"]["oplogMinRetentionHours"] == 24


@pytest.mark.parametrize("name", [*NAMES, "ä,b:c [d]@e%41?f&g=h#'\"$(i)`j`;k\\l\udcff"])
async def test_commands_find_mongod_in_a_moved_directory_of_any_name(
    name: str, short_path: Path
) -> None:
    async with running(short_path / "first") as client:
        await client.registry.notes.insert_one({})
    moved = (short_path / "first").rename(short_path / name)
    settings = Settings(data_dir=moved)
    (moved / "socket-of-a-killed-service").mkdir()
    async with running(moved):
        with running_uri(settings) as uri:
            assert uri is not None
            async with client_of(uri) as client:
                assert await client.registry.notes.count_documents({}) == 1
    with running_uri(settings) as uri:
        assert uri is None
    assert sorted(path.name for path in moved.iterdir()) == ["lock", "mongod.log", "mongodb"]


async def test_only_this_user_can_reach_mongod_and_there_is_no_tcp_port(tmp_path: Path) -> None:
    home = tmp_path / "new" / "data"
    async with embedded.mongod(Settings(data_dir=home)) as uri:
        path = Path(unquote(urlsplit(uri).netloc))
        async with client_of(uri) as client:
            net = (await client.admin.command("getCmdLineOpts"))["parsed"]["net"]
        assert [mode(place) for place in (home, path.parent, path)] == [
            "drwx------",
            "drwx------",
            "srwx------",
        ]
        assert net["bindIp"] == SOCKET


@pytest.mark.slow
async def test_a_command_ignores_a_socket_that_others_may_have_replaced(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with running(tmp_path):
        (directory,) = matches(tmp_path, "socket-*")
        directory.chmod(0o770)
        with running_uri(settings) as uri:
            assert uri is None
        directory.chmod(0o700)
        moved = directory.rename(tmp_path / "moved")
        directory.symlink_to(moved)
        with running_uri(settings) as uri:
            assert uri is None


async def has_exited(caplog: pytest.LogCaptureFixture) -> bool:
    return "mongod exited unexpectedly" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_the_socket_cannot_be_replaced_while_mongod_restarts(
    name: str, short_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervision, "_PAUSES", (60.0,))
    async with embedded.mongod(Settings(data_dir=short_path / name)) as uri:
        directory = Path(unquote(urlsplit(uri).netloc)).parent

        def places() -> list[tuple[int, str]]:
            both = (directory.parent.lstat(), directory.stat())  # of the link, of the socket
            return [(one.st_ino, stat.filemode(one.st_mode)) for one in both]

        before = places()
        kill(short_path / name)
        assert await eventually(partial(has_exited, caplog), 60)
        assert places() == before
        assert {mode for _, mode in before} == {"drwx------"}


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


def kill(data_dir: Path) -> None:
    os.kill(int((data_dir / "mongodb" / "mongod.lock").read_text()), signal.SIGKILL)


async def test_clients_reach_a_restarted_mongod_when_it_is_the_primary(tmp_path: Path) -> None:
    async with embedded.mongod(Settings(data_dir=tmp_path)) as uri, asyncio.timeout(60):
        path = Path(unquote(urlsplit(uri).netloc))
        kill(tmp_path)
        assert await eventually(lambda: not is_listening(path))
        while not is_listening(path):  # noqa: ASYNC110 - often, as it is a secondary for 10 ms
            await asyncio.sleep(0.001)
        async with client_of(uri) as client:
            assert (await client.admin.command("hello"))["isWritablePrimary"]


async def test_a_mongod_that_cannot_be_restarted_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "_PAUSES", (0.0, 0.1))
    reasons: asyncio.Queue[str] = asyncio.Queue()

    async def no_memory(*_: object, **_options: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    async with embedded.mongod(Settings(data_dir=tmp_path), reasons.put_nowait):
        monkeypatch.setattr(asyncio, "create_subprocess_exec", no_memory)
        kill(tmp_path)
        reason = await asyncio.wait_for(reasons.get(), 60)
    assert reason.startswith("mongod exited again after 2 restarts: ")
    assert "Cannot allocate memory" in reason
    assert is_free(tmp_path)


@pytest.mark.slow
async def test_a_stop_during_a_restart_leaves_no_mongod(tmp_path: Path) -> None:
    for seconds in (0.0, 0.1, 0.3):
        async with running(tmp_path):
            kill(tmp_path)
            await asyncio.sleep(seconds)
        await start_and_stop(tmp_path)
        assert is_free(tmp_path)


@pytest.mark.slow
async def test_a_start_waits_for_a_command_that_uses_the_directory(tmp_path: Path) -> None:
    async with running(tmp_path):
        waiting = asyncio.create_task(start_and_stop(tmp_path))
        await asyncio.sleep(0.1)
        assert not waiting.done()
    await waiting


@pytest.mark.slow
async def test_a_start_waits_for_a_previous_mongod_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start_and_stop(tmp_path)
    lock = tmp_path / "mongodb" / "mongod.lock"
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("4711\n")
        file.flush()
        with monkeypatch.context() as patch:
            patch.setattr(data_directory, "_PREVIOUS_SECONDS", 0.1)
            assert "process 4711" in await start_error(tmp_path)
        waiting = asyncio.create_task(running(tmp_path).__aenter__())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        waiting.cancel()


@pytest.mark.parametrize("place", ["file/data", "file"])
async def test_an_unwritable_directory_is_rejected(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = await start_error(tmp_path / place)
    assert message.startswith(f"cannot use data directory {tmp_path / place} (")
    assert "REGISTRY_DATA_DIR" in message


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo libcurl.so.4: cannot open shared object file >&2; exit 127", "libcurl.so.4: cannot"),
        ('echo \'{"s": "I", "msg": "a"}\n{"s": "F", "msg": "b", "attr": {"error": "c"}}\'', "b: c"),
        ("exit 14", "it ended with status 14"),
        ("kill -ILL $$", "Illegal instruction"),
    ],
)
async def test_the_reason_for_a_failed_start_is_reported(
    script: str, reason: str, tmp_path: Path
) -> None:
    message = await start_error(tmp_path / "data", program(tmp_path / "mongod", script))
    # The shell may report a signal first.
    assert re.search(
        f"mongod does not start: (it ended with signal .*)?{re.escape(reason)}", message
    )


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
        program(tmp_path / name, f"exec {shutil.which('env')} registry-{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "registry-configured" in await start_error(tmp_path / "data", Path("configured"))
    async with running(tmp_path / "data") as client:
        assert (await binary(client)).endswith("fiftyone/db/bin/mongod")
    monkeypatch.setitem(sys.modules, "fiftyone", None)
    assert "registry-mongod" in await start_error(tmp_path / "data")
    monkeypatch.setenv("PATH", "")
    message = await start_error(tmp_path / "data")
    assert message.startswith("no mongod: install the extra `embedded`")
    assert "REGISTRY_MONGOD" in message
    assert "MONGODB_URI" in message
