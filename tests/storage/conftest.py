"""Connections to MongoDB that break."""

from collections.abc import Iterator

import pytest

from tests.proxy import Proxy


@pytest.fixture
def proxy(mongodb_uri: str) -> Iterator[Proxy]:
    """A proxy in front of the mongod of the tests."""
    with Proxy(mongodb_uri).running() as proxy:
        yield proxy
