"""The embedded mongod fails: it is restarted, or the service exits and says why."""

import os
import signal
import sys

import pytest

from tests.system.conftest import Start
from tests.system.service import WORKERS, children, eventually, has_exited, person

IMPATIENT = """
from registry import supervision
supervision._PAUSES = (0.0, 0.1)
from registry.__main__ import main
main()
"""


@pytest.mark.parametrize("workers", WORKERS)
def test_the_service_survives_a_killed_mongod(workers: str, start: Start) -> None:
    service = start("--workers", workers)
    service.request("/persons", person("Grace"))
    killed = service.mongod
    os.kill(killed, signal.SIGKILL)
    assert service.names() == ["Grace"]
    service.request("/persons", person("Ada"))
    assert service.names() == ["Grace", "Ada"]
    assert service.mongod != killed
    mongod = service.mongod
    status, log = service.stop()
    assert status == 0
    assert "mongod exited unexpectedly: signal 9 (Killed)" in log
    assert "mongod has been restarted" in log
    assert has_exited(mongod)


@pytest.mark.slow
def test_the_service_survives_a_killed_shell_around_mongod(start: Start) -> None:
    service = start()
    service.request("/persons", person("Grace"))
    killed = service.mongod
    (shell,) = children(service.process.pid)
    os.kill(shell, signal.SIGKILL)
    assert eventually(lambda: has_exited(killed))
    assert service.names() == ["Grace"]
    assert service.stop()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
def test_the_service_exits_if_mongod_cannot_be_restarted(workers: str, start: Start) -> None:
    service = start("--workers", workers, command=(sys.executable, "-c", IMPATIENT))
    mongod = service.mongod
    (service.data_dir / "mongodb" / "WiredTiger.turtle").write_text("garbage")
    os.kill(mongod, signal.SIGKILL)
    status, log = service.end()
    assert status == 1
    last = log.splitlines()[-1]
    assert last.startswith("registry: mongod exited again after 2 restarts: ")
    assert "WiredTiger.turtle" in last
