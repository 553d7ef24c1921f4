"""The fixture that runs the service in a process, which is stopped after the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.service import Service, starting

Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the service, by default on a data directory of the test."""
    with starting(tmp_path / "data") as start:
        yield start
