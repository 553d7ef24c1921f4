"""The embedded mongod ends: the service says why and exits, and has all writes when it starts."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from itertools import count

import pytest

from tests.system.conftest import Start
from tests.system.service import (
    TIMEOUT,
    WORKERS,
    Service,
    children,
    eventually,
    has_exited,
    person,
    start_error,
)


def create_until_refused(service: Service, created: list[str]) -> None:
    """Create persons one after another, until a request fails; add the name of each."""
    try:
        for number in count():
            name = f"Grace {number}"
            service.request("/persons", person(name))
            created.append(name)
    except (OSError, HTTPException):
        pass


def last_line(service: Service) -> str:
    """Return the line by which the service says why it has ended, with status 1."""
    status, log = service.end()
    assert status == 1
    assert "Traceback" not in log
    *_, last = log.splitlines()
    return last


@pytest.mark.parametrize("workers", WORKERS)
def test_the_end_of_mongod_ends_the_service_but_no_acknowledged_write(
    workers: str, start: Start
) -> None:
    service = start("--workers", workers)
    created: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(create_until_refused, service, created)
        assert eventually(lambda: len(created) >= 20)
        os.kill(service.mongod, signal.SIGKILL)
        reason, log = "signal 9 (Killed)", service.data_dir / "mongod.log"
        assert last_line(service) == f"registry: mongod has ended: {reason} (its log is {log})"
        creating.result(TIMEOUT)
    again = start("--workers", workers)
    stored = again.names()
    assert stored[: len(created)] == created
    assert len(stored) <= len(created) + 1  # the request in progress may have succeeded
    again.request("/persons", person("Ada"))
    assert again.stop()[0] == 0


@pytest.mark.slow
def test_the_end_of_the_shell_around_mongod_ends_both(start: Start) -> None:
    service = start()
    service.request("/persons", person("Grace"))
    mongod = service.mongod
    (shell,) = children(service.process.pid)
    os.kill(shell, signal.SIGKILL)
    assert "mongod has ended: signal 9 (Killed)" in last_line(service)
    assert eventually(lambda: has_exited(mongod))
    assert start().names() == ["Grace"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
def test_a_start_with_damaged_files_says_so(workers: str, start: Start) -> None:
    service = start("--workers", workers)
    assert service.stop()[0] == 0
    (service.data_dir / "mongodb" / "WiredTiger.turtle").write_text("garbage")
    message = start_error("--workers", workers, "--data-dir", service.data_dir)
    assert re.match(r"registry: mongod does not start: .*: its files (are|may be) damaged", message)
