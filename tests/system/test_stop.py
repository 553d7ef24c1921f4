"""Stopping the service: it finishes open requests and leaves no processes behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import orjson
import pytest
import pytest_asyncio

from registry.mongod import embedded
from registry.settings import Settings
from tests.mongods import client_of
from tests.support import MEDIA_TYPE
from tests.system.conftest import Start
from tests.system.service import (
    TIMEOUT,
    WORKERS,
    Service,
    descendants,
    eventually,
    has_exited,
    person,
)

COMPUTERS = 40_000

GET_COMPUTERS = b"GET /computers HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(service: Service) -> socket.socket:
    url = urlsplit(service.url)
    return socket.create_connection((url.hostname, url.port), timeout=TIMEOUT)


def refuses_connections(service: Service) -> bool:
    try:
        connect(service).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # the listener closed during the handshake
        return False
    return False


def hang_up(service: Service) -> None:
    """Send SIGHUP as the end of a terminal does, to all processes in the group."""
    os.killpg(service.process.pid, signal.SIGHUP)


def press_ctrl_c(service: Service) -> None:
    """Send SIGINT as a terminal does, to all processes in the group."""
    os.killpg(service.process.pid, signal.SIGINT)


def terminate(service: Service) -> None:
    service.process.terminate()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stored_computers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with more computers than the buffers of a connection can hold."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("computers"))
    records = [{"_id": id_, "serial": "x" * 255, "person": None} for id_ in range(1, COMPUTERS + 1)]
    async with embedded.mongod(settings) as uri, client_of(uri) as client:
        await client[settings.database].computers.insert_many(records)
    return settings.data_dir


@pytest.fixture
def computers(stored_computers: Path, tmp_path: Path) -> int:
    """Copy the computers into the data directory of the test; return their number."""
    shutil.copytree(stored_computers, tmp_path / "data")
    return COMPUTERS


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "stop",
    [terminate, *(pytest.param(one, marks=pytest.mark.slow) for one in (press_ctrl_c, hang_up))],
)
def test_open_requests_are_finished_before_the_service_exits(
    stop: Callable[[Service], None], workers: str, computers: int, start: Start
) -> None:
    service = start("--workers", workers)
    mongod = service.mongod
    with urlopen(f"{service.url}/computers", timeout=TIMEOUT) as response:  # noqa: S310 - http
        beginning = response.read(1_000)
        stop(service)
        assert eventually(lambda: refuses_connections(service))
        document = orjson.loads(beginning + response.read())
    assert document["meta"]["count"] == len(document["data"]) == computers
    assert service.end()[0] == 0
    assert eventually(lambda: has_exited(mongod))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)]
)
def test_further_signals_change_nothing(number: signal.Signals, workers: str, start: Start) -> None:
    service = start("--workers", workers)
    mongod = service.mongod
    for _ in range(3):
        service.process.send_signal(number)
        time.sleep(0.05)
    assert service.stop(number) == (0, "")
    assert eventually(lambda: has_exited(mongod))


@pytest.mark.parametrize("workers", WORKERS)
def test_the_second_ctrl_c_exits_at_once(workers: str, computers: int, start: Start) -> None:
    service = start("--workers", workers)
    mongod = service.mongod
    created = service.request("/persons", person("Grace"))["data"]["id"]
    with connect(service) as slow:
        slow.sendall(GET_COMPUTERS)  # and does not read
        assert slow.recv(1)
        press_ctrl_c(service)
        line = service.log_line("Stopping")
        assert "Stopping: waiting up to 20 s for open requests: 1" in line
        assert "Ctrl-C" in line
        assert service.process.poll() is None
        press_ctrl_c(service)
        status, log = service.end()
    assert status == 128 + signal.SIGINT
    assert "Stopped at once" in log  # a worker may still log what it has done in the background
    assert "Traceback" not in log
    assert eventually(lambda: has_exited(mongod))
    again = start()
    assert again.request(f"/persons/{created}")["data"]["attributes"]["first_name"] == "Grace"
    assert again.request("/computers?page[size]=1&page[number]=1")["meta"]["total"] == computers


def test_a_service_under_nohup_survives_the_end_of_its_terminal(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
    try:
        service = start()
    finally:
        signal.signal(signal.SIGHUP, before)
    service.process.send_signal(signal.SIGHUP)
    assert service.names() == []
    assert service.stop() == (0, "")


@pytest.mark.parametrize("workers", WORKERS)
def test_no_client_that_reuses_its_connection_loses_a_request(workers: str, start: Start) -> None:
    service = start("--workers", workers)
    stop_sent = threading.Event()
    url = urlsplit(service.url)

    def create_until_told_to_close(number: int) -> list[str]:
        """Create persons on one connection until a response closes it; return their ids."""
        ids = []
        connection = HTTPConnection(str(url.hostname), url.port, timeout=TIMEOUT)
        with closing(connection):
            while True:
                body = orjson.dumps(person(f"Grace {number}"))
                connection.request("POST", "/persons", body, {"Content-Type": MEDIA_TYPE})
                response = connection.getresponse()
                ids.append(orjson.loads(response.read())["data"]["id"])
                if response.headers["Connection"] == "close":
                    assert stop_sent.is_set()
                    return ids
                time.sleep(0.01 * number)  # some are idle at the time of the signal

    with ThreadPoolExecutor(16) as pool:
        clients = [pool.submit(create_until_told_to_close, number) for number in range(16)]
        time.sleep(0.5)
        stop_sent.set()
        terminate(service)
        created = [id_ for client in clients for id_ in client.result()]
    assert service.end()[0] == 0
    assert len(set(created)) == len(created)
    assert len(start().names()) == len(created)


@pytest.mark.parametrize("workers", WORKERS)
def test_connections_not_accepted_yet_get_responses(workers: str, start: Start) -> None:
    service = start("--workers", workers)
    processes = [service.process.pid, *descendants(service.process.pid)]
    pythons = [n for n in processes if b"python" in Path(f"/proc/{n}/cmdline").read_bytes()]
    for process in pythons:
        os.kill(process, signal.SIGSTOP)
    with ExitStack() as stack:
        connections = [stack.enter_context(connect(service)) for _ in range(20)]
        for connection in connections:
            connection.sendall(b"GET /persons/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        terminate(service)
        for process in reversed(pythons):
            os.kill(process, signal.SIGCONT)
        for connection in connections:
            assert connection.recv(65_536).startswith(b"HTTP/1.1 404 ")
    assert service.end()[0] == 0


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_a_signal_stops_the_startup(number: signal.Signals, workers: str, start: Start) -> None:
    service = start("--workers", workers, waits=False)
    assert eventually((service.data_dir / "mongodb" / "mongod.lock").exists)
    assert service.stop(number) == (0, "")
    assert (service.data_dir / "mongodb" / "mongod.lock").read_text() == ""


def test_a_killed_service_can_be_restarted_immediately(start: Start) -> None:
    for names in ([], ["Grace"], ["Grace", "Grace"]):
        service = start()
        assert service.names() == names
        service.request("/persons", person("Grace"))
        assert service.stop(signal.SIGKILL) == (-signal.SIGKILL, "")


@pytest.mark.parametrize("workers", WORKERS)
def test_a_request_is_finished_whose_body_is_still_arriving(workers: str, start: Start) -> None:
    service = start("--workers", workers)
    body = orjson.dumps(person("Grace"))
    head = (
        f"POST /persons HTTP/1.1\r\nHost: localhost\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    with connect(service) as connection, connection.makefile("rb") as response:
        connection.sendall(head.encode() + body[:9])
        assert response.readline() == b"HTTP/1.1 100 Continue\r\n"
        terminate(service)
        assert eventually(lambda: refuses_connections(service))
        connection.sendall(body[9:])
        assert response.readline() == b"\r\n"
        assert response.readline() == b"HTTP/1.1 201 Created\r\n"
        assert b"Connection: close\r\n" in response.read()
    assert service.end()[0] == 0
    assert start().names() == ["Grace"]
