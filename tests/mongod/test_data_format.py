"""The versions of MongoDB: which data one of them opens, and which of them the service uses."""

import sys
from pathlib import Path

import pytest

from registry.model.graph import Graph
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


async def test_only_a_mongod_that_knows_the_format_of_the_data_opens_them(
    earlier: Path, tmp_path: Path
) -> None:
    async with running(tmp_path, earlier) as client:
        await client.registry.notes.insert_one({"_id": 1})
    async with running(tmp_path) as client:
        assert await client.registry.notes.count_documents({}) == 1
    async with running(tmp_path, earlier) as client:
        await client.admin.command("setFeatureCompatibilityVersion", "4.4")
    assert "another version of MongoDB has written the data" in await start_error(tmp_path)


async def test_a_mongodb_that_the_service_cannot_use_is_refused(
    earlier: Path, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, mongod=earlier)
    with pytest.raises(StartError, match=r"is MongoDB 5\.0\.4: the service requires 6\.0 or later"):
        async with connect(settings, Graph(RESOURCES)):
            pass
