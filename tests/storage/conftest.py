"""What tests of storage need: a database without collections, and connections that break."""

from collections.abc import Iterator

import pytest

from tests.proxy import Proxy
from tests.support import Database


@pytest.fixture
async def _new_database(database: Database) -> None:
    """The database of the test is as before the first start of a service."""
    await database.client.drop_database(database.name)


@pytest.fixture
def proxy(mongodb_uri: str) -> Iterator[Proxy]:
    """A proxy in front of the mongod of the tests."""
    with Proxy(mongodb_uri).running() as proxy:
        yield proxy
