"""The running service, in processes that end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.service import Service

Start = Callable[..., Service]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Start]:
    """Start the service on the data directory of the test, and do not wait for it."""
    services: list[Service] = []

    def begin(*arguments: str | Path, data_dir: Path | None = None, **variables: str) -> Service:
        services.append(Service(data_dir or tmp_path / "data", *arguments, **variables))
        return services[-1]

    yield begin
    for service in services:
        with service.process as process:
            if process.poll() is None:
                process.terminate()


@pytest.fixture
def start(begin: Start) -> Start:
    """Start the service and wait until it is ready."""

    def start(*arguments: str | Path, data_dir: Path | None = None, **variables: str) -> Service:
        service = begin(*arguments, data_dir=data_dir, **variables)
        service.wait_until_ready()
        return service

    return start
