"""The format of the data of mongod: which versions open it, and how it is raised."""

import re
import sys
from pathlib import Path

import pytest

from registry.model.graph import Graph
from registry.mongod.embedded import raise_format, read_formats
from registry.program import StartError
from registry.resources import RESOURCES
from registry.settings import Settings
from registry.storage.mongo.mongo_client import connect
from tests.mongods import running, start_error
from tests.programs import earlier_mongod

pytestmark = pytest.mark.slow

OTHER_FORMAT = (
    "mongod does not start: status 62: the data are in the format of another version of MongoDB: "
    "choose it with --mongod (its log is {}/mongod.log)"
)


@pytest.fixture(scope="module")
def earlier() -> Path:
    """A mongod 5.0."""
    if sys.platform != "linux":
        pytest.skip("the mongod 5.0 is a program for Linux")
    return earlier_mongod()


async def test_data_is_upgraded_when_the_format_is_raised_and_not_before(
    earlier: Path, tmp_path: Path
) -> None:
    async with running(tmp_path, earlier) as client:
        await client.registry.notes.insert_one({"_id": 1})
    async with running(tmp_path) as client:
        assert await read_formats(client) == ("6.0", "5.0")
    async with running(tmp_path, earlier) as client:  # a step back
        assert await client.registry.notes.count_documents({}) == 1
    async with running(tmp_path) as client:
        assert await client.registry.notes.count_documents({}) == 1
        for before in ("5.0", "6.0"):
            assert await raise_format(client) == ("6.0", before)
    assert await start_error(tmp_path, earlier) == OTHER_FORMAT.format(tmp_path)


async def test_data_that_is_two_versions_older_is_refused(earlier: Path, tmp_path: Path) -> None:
    async with running(tmp_path, earlier) as client:
        await client.admin.command("setFeatureCompatibilityVersion", "4.4")
    assert await start_error(tmp_path) == OTHER_FORMAT.format(tmp_path)


async def test_files_of_a_later_storage_engine_are_refused_as_such(tmp_path: Path) -> None:
    async with running(tmp_path):
        pass
    turtle = tmp_path / "mongodb" / "WiredTiger.turtle"
    turtle.write_bytes(re.sub(rb"major=\d+,minor=\d+", b"major=99,minor=0", turtle.read_bytes()))
    assert "of a later version of MongoDB, to be chosen with --mongod" in await start_error(
        tmp_path
    )


async def test_a_mongodb_that_the_service_cannot_use_is_refused(
    earlier: Path, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, mongod=earlier)
    with pytest.raises(StartError, match=r"is MongoDB 5\.0\.4: the service requires 6\.0 or later"):
        async with connect(settings, Graph(RESOURCES)):
            pass
