"""The fixture that runs the service in a process, which is stopped after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from registry.testing import new_name
from tests.system.service import Service

Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the service, by default on a data directory of the test.

    waits: whether until it is ready. mongodb_uri: of a mongod that runs already, on which the
    service has a database of its own. options: those of `Service`, and environment variables.
    """
    services: list[Service] = []

    def start(
        *arguments: str | Path,
        data_dir: Path | None = None,
        waits: bool = True,
        mongodb_uri: str | None = None,
        **options: Any,
    ) -> Service:
        if mongodb_uri:
            options = {"MONGODB_URI": mongodb_uri, "REGISTRY_DATABASE": new_name()} | options
        services.append(service := Service(data_dir or tmp_path / "data", *arguments, **options))
        if waits:
            service.wait_until_ready()
        return service

    yield start
    for service in services:
        service.close()
