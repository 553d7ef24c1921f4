"""Several workers on one port: they act as one service, and a worker that exits is replaced."""

import asyncio
import os
import re
import signal
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from registry.processes import workers as workers_module
from registry.program import StartError
from registry.settings import Settings
from tests.system.conftest import Start
from tests.system.service import (
    ROOT,
    TIMEOUT,
    TWO,
    Service,
    children,
    command_of,
    create_persons,
    eventually,
    has_exited,
    person,
    start_error,
    workers_of,
)


def listener_count(service: Service) -> int:
    """Return the number of sockets that listen on the port of the service."""
    port = int(service.url.rpartition(":")[2])
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def test_workers_share_data_and_print_their_urls_once(start: Start) -> None:
    service = start(*TWO, "--types", ROOT / "docs/fleet.toml")
    url = service.url
    assert re.fullmatch(
        rf"Registry ready: page {url}/, API {url}/persons, Swagger UI {url}/api/swagger/ .*\n",
        service.announcement,
    )
    assert len(workers_of(service)) == listener_count(service) == 2
    mongod = service.mongod
    assert len(set(create_persons(service, 40))) == 40
    for _ in range(10):  # whichever worker responds
        id_ = service.request("/persons", person("Ada"))["data"]["id"]
        assert service.request(f"/persons/{id_}")["data"]["attributes"]["first_name"] == "Ada"
    (path,) = re.findall(r"`GET (/phones\?[^`]+)`", (ROOT / "docs/types.md").read_text())
    assert service.request(path)["data"] == []
    assert service.stop() == (0, "")
    assert has_exited(mongod)


def test_a_killed_worker_is_replaced_while_the_others_serve(start: Start, mongodb_uri: str) -> None:
    service = start(*TWO, mongodb_uri=mongodb_uri)
    killed, other = workers_of(service)
    with urlopen(f"{service.url}/persons", timeout=TIMEOUT):  # noqa: S310 - http
        os.kill(killed, signal.SIGKILL)
        assert eventually(lambda: has_exited(killed))
    assert service.names() == []
    assert eventually(lambda: len(workers_of(service)) == listener_count(service) == 2)
    assert killed not in workers_of(service)
    assert other in workers_of(service)
    assert create_persons(service, 8)
    status, log = service.stop()
    assert f"ERROR worker exited unexpectedly: signal 9 (Killed) (process {killed})" in log
    assert (status, log.count("\n")) == (0, 1)


@pytest.mark.slow
def test_a_killed_service_leaves_no_processes(start: Start) -> None:
    service = start(*TWO)
    processes = [service.mongod, *workers_of(service)]
    url = urlsplit(service.url)
    with socket.create_connection((url.hostname, url.port), TIMEOUT) as idle:
        idle.sendall(b"GET /persons HTTP/1.1\r\n")  # the rest of the request does not arrive
        assert service.stop(signal.SIGKILL)[0] == -signal.SIGKILL
        assert eventually(lambda: all(map(has_exited, processes)))


@pytest.mark.slow
def test_killed_workers_are_replaced_again_and_again(start: Start) -> None:
    service = start(*TWO)
    killed = set[int]()
    for number in (2, 2, 0, 2):  # after a 0, they are killed while they start
        assert eventually(lambda: listener_count(service) >= number)  # noqa: B023 - called at once
        assert eventually(lambda: len(workers_of(service)) == 2)
        killed.update(workers := workers_of(service))
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        assert eventually(lambda: all(map(has_exited, killed)))
    assert eventually(lambda: listener_count(service) == 2)
    assert create_persons(service, 8)
    assert service.stop()[0] == 0


@pytest.mark.slow
def test_workers_import_nothing_from_the_callers_directory(start: Start, tmp_path: Path) -> None:
    (tmp_path / "uvloop.py").write_text("raise SystemExit(3)\n")
    within = ("/bin/sh", "-c", 'cd "$0" && exec "$@"', tmp_path)
    command = (*within, sys.executable, "-P", "-m", "registry")
    service = start(*TWO, command=command, PYTHONPATH=str(ROOT))
    assert service.names() == []


async def test_a_worker_that_hangs_while_it_starts_is_stopped_and_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(workers_module, "START_SECONDS", 0.2)
    monkeypatch.setattr(workers_module, "_PROGRAM", "import time; time.sleep(600)")
    reports: asyncio.Queue[str | StartError] = asyncio.Queue()
    workers = workers_module.Workers((Settings(), 0, None), reports)
    workers.start(1)
    assert str(await reports.get()) == "worker does not start: it was not ready after 0.2 s"
    await workers.stop()
    assert not any(b"sleep(600)" in command_of(child) for child in children(os.getpid()))


@pytest.mark.parametrize(
    ("name", "options"),
    [("port", ("--workers", "1")), ("port", TWO), ("metrics-port", ("--workers", "1"))],
)
def test_a_port_in_use_is_reported(
    name: str, options: tuple[str, ...], tmp_path: Path, unused_tcp_port: int
) -> None:
    with socket.create_server(("127.0.0.1", unused_tcp_port)):
        port = (f"--{name}", str(unused_tcp_port))
        message = start_error(*options, *port, "--data-dir", tmp_path / "data")
    assert f"cannot listen on 127.0.0.1 port {unused_tcp_port} (Address already in use)" in message
    assert f"choose another with --{name} or REGISTRY_{name.replace('-', '_').upper()}" in message
    assert not (tmp_path / "data").exists()
