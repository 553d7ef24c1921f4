"""New databases: tests of storage depend on their indexes and on what earlier writes have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from registry.testing_databases import new_name
from tests.proxy import Proxy


@pytest.fixture
def database_name(drop: Callable[[str], object]) -> Iterator[str]:
    """The name of a new database, which is dropped after the test."""
    yield (name := new_name())
    drop(name)


@pytest.fixture
def proxy(mongodb_uri: str) -> Iterator[Proxy]:
    """A proxy in front of the mongod of the tests."""
    with Proxy(mongodb_uri).running() as proxy:
        yield proxy
