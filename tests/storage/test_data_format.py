"""The format of the data of mongod: which versions open it, and how it is raised."""

import json
import re
import sys
from pathlib import Path

import pytest

from registry.model.graph import Graph
from registry.mongod.embedded import raise_format, read_format
from registry.mongod.server_log import Log
from registry.program import StartError
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect
from tests.mongods import running, start_error
from tests.programs import earlier_mongod

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def earlier() -> Path:
    """A mongod 5.0."""
    if sys.platform != "linux":
        pytest.skip("the mongod 5.0 is a program for Linux")
    return earlier_mongod()


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


async def test_data_that_is_two_versions_older_is_refused(earlier: Path, tmp_path: Path) -> None:
    async with running(tmp_path, earlier) as client:
        await client.admin.command("setFeatureCompatibilityVersion", "4.4")
    message = await format_error(tmp_path)
    assert re.match(
        r"mongod 6\.0\.\d+ cannot open data in the format of MongoDB 4\.4: choose mongod 4\.4 with "
        r"--mongod; `\S+ upgrade` raises the format for the next version",
        message,
    )


async def test_files_of_a_later_storage_engine_are_refused_as_such(tmp_path: Path) -> None:
    async with running(tmp_path):
        pass
    turtle = tmp_path / "mongodb" / "WiredTiger.turtle"
    turtle.write_bytes(re.sub(rb"major=\d+,minor=\d+", b"major=99,minor=0", turtle.read_bytes()))
    message = await format_error(tmp_path)
    assert re.match(r"a MongoDB later than 6\.0\.\d+ wrote the data: choose it ", message)


@pytest.mark.parametrize(
    "error",
    [
        "Invalid feature compatibility version value '7.0'; expected '8.0' or '8.2'.",
        'document: { _id: "featureCompatibilityVersion", version: "7.0" }. See',
    ],
)
def test_the_format_is_found_in_the_errors_of_later_versions(error: str, tmp_path: Path) -> None:
    log = Log(tmp_path / "mongod.log")
    with log.file:
        log.begin()
        for entry in (
            {"id": 23403, "s": "I", "attr": {"buildInfo": {"version": "9.0.1"}}},
            {"id": 20573, "s": "F", "attr": {"error": f"UPGRADE PROBLEM: {error}"}},
        ):
            log.file.write(json.dumps(entry).encode() + b"\n")
        conflict = log.version_conflict()
    assert conflict is not None
    assert conflict.startswith("mongod 9.0.1 cannot open data in the format of MongoDB 7.0: choose")


async def test_a_mongodb_that_the_service_cannot_use_is_refused(
    earlier: Path, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, mongod=earlier)
    with pytest.raises(StartError, match=r"is MongoDB 5\.0\.4: the service requires 6\.0 or later"):
        async with connect(settings, Graph(RESOURCES)):
            pass
