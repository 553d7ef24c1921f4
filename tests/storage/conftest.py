"""New databases: tests of storage depend on their indexes and on what earlier writes have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from registry.testing import new_name


@pytest.fixture
def database_name(drop: Callable[[str], object]) -> Iterator[str]:
    """The name of a new database, which is dropped after the test."""
    yield (name := new_name())
    drop(name)
