"""Fixtures that run the service in processes, which are stopped after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.service import Service

Start = Callable[..., Service]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Start]:
    """Start the service, by default on a data directory of the test, without waiting for it.

    options: those of `Service`, and environment variables.
    """
    services: list[Service] = []

    def launch(*arguments: str | Path, data_dir: Path | None = None, **options: Any) -> Service:
        directory = data_dir or tmp_path / "data"
        services.append(Service(directory, *arguments, **options))
        return services[-1]

    yield launch
    for service in services:
        with service.process as process:
            if process.poll() is None:
                process.terminate()


@pytest.fixture
def start(launch: Start) -> Start:
    """Start the service and wait until it is ready."""

    def start(*arguments: str | Path, **options: Any) -> Service:
        service = launch(*arguments, **options)
        service.wait_until_ready()
        return service

    return start
