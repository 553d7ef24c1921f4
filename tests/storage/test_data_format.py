"""The format of the data of mongod: which versions open it, and how it is raised."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from registry.model.graph import Graph
from registry.mongod.data_format import raise_format, read_format, version_conflict
from registry.mongod.server_log import Log
from registry.program import StartError
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect
from tests import earlier_mongod
from tests.mongods import running, start_error

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def earlier() -> Path:
    """A mongod 5.0."""
    if sys.platform != "linux":
        pytest.skip("the mongod 5.0 is a program for Linux")
    return earlier_mongod.install()


def refusal(directory: Path, mongod: str, error: str) -> str:
    """Return how a mongod that logs an error of the format is reported."""
    log = Log.open(directory / "mongod.log")
    with log.file:
        log.begin()
        for entry in (
            {"id": 23403, "s": "I", "attr": {"buildInfo": {"version": mongod}}},
            {"id": 20573, "s": "F", "attr": {"error": f"UPGRADE PROBLEM: {error}"}},
        ):
            log.file.write(json.dumps(entry).encode() + b"\n")
        conflict = version_conflict(log)
    assert conflict is not None
    return conflict


async def format_error(data_dir: Path, mongod: Path | None = None) -> str:
    return (await start_error(data_dir, mongod)).removeprefix("mongod does not start: ")


async def test_data_is_upgraded_when_the_format_is_raised_and_not_before(
    earlier: Path, tmp_path: Path
) -> None:
    async with running(tmp_path, earlier) as client:
        await client.registry.notes.insert_one({"_id": 1})
    async with running(tmp_path) as client:
        assert (await read_format(client)).data == "5.0"
    async with running(tmp_path, earlier) as client:  # a step back
        assert await client.registry.notes.count_documents({}) == 1
    async with running(tmp_path) as client:
        assert await client.registry.notes.count_documents({}) == 1
        for before in ("5.0", "6.0"):
            assert (await raise_format(client)).data == before
    message = await format_error(tmp_path, earlier)
    expected = "mongod 5.0.4 cannot open data in the format of MongoDB 6.0: choose mongod 6.0 with"
    assert message.startswith(expected)


async def test_data_that_is_two_versions_older_is_refused_with_the_version_between(
    earlier: Path, tmp_path: Path
) -> None:
    async with running(tmp_path, earlier) as client:
        await client.admin.command("setFeatureCompatibilityVersion", "4.4")
    message = await format_error(tmp_path)
    assert re.match(
        r"mongod 6\.0\.\d+ cannot open data in the format of MongoDB 4\.4: first choose "
        r"mongod 5\.0 with --mongod, and raise the format with `\S+ upgrade`",
        message,
    )


def test_the_upgrade_command_is_named_as_the_user_runs_this_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for argument, command in (
        ("/venv/bin/registry", "`registry upgrade`"),
        ("/a/registry/__main__.py", "`python -m registry upgrade`"),
    ):
        monkeypatch.setattr(sys, "argv", [argument])
        assert command in refusal(tmp_path, "8.0.4", 'document: { version: "6.0" }. See')


async def test_files_of_a_later_storage_engine_are_refused_as_such(tmp_path: Path) -> None:
    async with running(tmp_path):
        pass
    turtle = tmp_path / "mongodb" / "WiredTiger.turtle"
    turtle.write_bytes(re.sub(rb"major=\d+,minor=\d+", b"major=99,minor=0", turtle.read_bytes()))
    message = await format_error(tmp_path)
    assert re.match(r"a MongoDB later than 6\.0\.\d+ wrote the data: choose that one ", message)


@pytest.mark.parametrize(
    ("mongod", "error", "advice"),
    [
        (
            "8.0.4",
            "Invalid feature compatibility version value '6.0'; expected '7.0' or '7.3' or '8.0'.",
            "first choose mongod 7.0 with",
        ),
        (
            "8.2.1",
            'document: { _id: "featureCompatibilityVersion", version: "6.0" }. See',
            "first choose mongod 7.0, then 8.0 with",
        ),
        (
            "7.0.28",
            'document: { _id: "featureCompatibilityVersion", version: "8.0" }. See',
            "choose mongod 8.0 with",
        ),
    ],
)
def test_versions_that_are_not_at_hand_are_named_too(
    mongod: str, error: str, advice: str, tmp_path: Path
) -> None:
    conflict = refusal(tmp_path, mongod, error)
    assert conflict.partition(": ")[2].startswith(advice)


async def test_a_mongodb_that_the_service_cannot_use_is_refused(
    earlier: Path, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, mongod=earlier)
    with pytest.raises(StartError, match=r"is MongoDB 5\.0\.4: the service requires 6\.0 or later"):
        async with connect(settings, Graph(RESOURCES)):
            pass
