"""The service in a process of its own, on the mongod of the test run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.settings import Settings
from tests.support import Database
from tests.system.conftest import Start
from tests.system.service import Service


@pytest.fixture
def start(
    tmp_path: Path,
    settings: Settings,
    database: Database,  # noqa: ARG001 - is dropped after the service has stopped
) -> Iterator[Start]:
    """Start the service on the database of the test and wait until it is ready."""
    services: list[Service] = []

    def start(*arguments: str) -> Service:
        uri, name = settings.mongodb_uri or "", settings.database
        service = Service(tmp_path, *arguments, MONGODB_URI=uri, REGISTRY_DATABASE=name)
        services.append(service)
        service.wait_until_ready()
        return service

    yield start
    for service in services:
        status, _ = service.stop()
        service.close()
        assert status == 0
