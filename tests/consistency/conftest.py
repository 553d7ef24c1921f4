"""The service in a process of its own, on the mongod of the test run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from registry.settings import Settings
from tests.support import Database
from tests.system.service import TIMEOUT, Service

Start = Callable[..., Service]


@pytest.fixture
def start(
    tmp_path: Path,
    settings: Settings,
    database: Database,  # noqa: ARG001 - is dropped after the service has stopped
) -> Iterator[Start]:
    """Start the service on the database of the test and wait until it is ready."""
    services: list[Service] = []

    def start(*arguments: str) -> Service:
        uri = settings.mongodb_uri or ""
        database = settings.database
        service = Service(tmp_path, *arguments, MONGODB_URI=uri, REGISTRY_DATABASE=database)
        services.append(service)
        service.wait_until_ready()
        assert service.process.stderr
        # The log has a line for every error response: a pipe that nobody reads would fill up.
        Thread(target=service.process.stderr.read, daemon=True).start()
        return service

    yield start
    for service in services:
        with service.process as process:
            process.terminate()
            assert process.wait(TIMEOUT) == 0
