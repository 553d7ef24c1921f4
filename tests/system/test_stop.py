"""Stopping the service: it finishes open requests and leaves no processes behind."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import orjson
import pytest

from registry.settings import Settings
from registry.storage.mongod import embedded
from tests.mongods import client_of
from tests.support import MEDIA_TYPE
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service, eventually, has_exited, person


def connect(service: Service) -> socket.socket:
    url = urlsplit(service.url)
    return socket.create_connection((url.hostname, url.port), timeout=TIMEOUT)


def refuses_connections(service: Service) -> bool:
    try:
        connect(service).close()
    except ConnectionRefusedError:
        return True
    return False


def press_ctrl_c(service: Service) -> None:
    """Send SIGINT as a terminal does, to all processes in the group."""
    os.killpg(service.process.pid, signal.SIGINT)


def terminate(service: Service) -> None:
    service.process.terminate()


@pytest.fixture
async def computers(tmp_path: Path) -> int:
    """Store more computers than the buffers of a connection can hold; return their number."""
    settings = Settings(data_dir=tmp_path / "data")
    records = [{"_id": id_, "serial": "x" * 255, "person": None} for id_ in range(1, 40_001)]
    async with embedded.mongod(settings) as uri, client_of(uri) as client:
        await client[settings.database].computers.insert_many(records)
    return len(records)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("stop", [press_ctrl_c, terminate])
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
    assert service.wait() == 0
    assert has_exited(mongod)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_repeated_signals_do_not_interrupt_the_shutdown(
    number: signal.Signals, workers: str, start: Start
) -> None:
    service = start("--workers", workers)
    mongod = service.mongod
    for _ in range(3):
        service.process.send_signal(number)
        time.sleep(0.05)
    assert service.stop(number) == 0
    assert has_exited(mongod)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_startup_stops_the_service(
    number: signal.Signals, workers: str, launch: Start
) -> None:
    service = launch("--workers", workers)
    assert eventually((service.data_dir / "mongodb" / "mongod.lock").exists)
    assert service.stop(number) == 0
    assert (service.data_dir / "mongodb" / "mongod.lock").read_text() == ""


def test_a_killed_service_leaves_no_mongod(start: Start) -> None:
    service = start()
    service.request("/persons", person("Grace"))
    mongod = service.mongod
    assert service.stop(signal.SIGKILL) == -signal.SIGKILL
    assert eventually(lambda: has_exited(mongod))


def test_a_killed_service_can_be_restarted_immediately(start: Start) -> None:
    for names in ([], ["Grace"], ["Grace", "Grace"]):
        service = start()
        assert service.names() == names
        service.request("/persons", person("Grace"))
        assert service.stop(signal.SIGKILL) == -signal.SIGKILL


def test_the_exit_of_mongod_is_logged_and_the_service_still_stops_cleanly(start: Start) -> None:
    service = start()
    os.kill(service.mongod, signal.SIGKILL)
    line = service.read_line(service.process.stderr)
    assert "mongod exited unexpectedly: signal 9 (Killed)" in line
    assert service.stop() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_request_whose_body_is_still_arriving_is_finished_before_the_service_exits(
    workers: str, start: Start
) -> None:
    service = start("--workers", workers)
    body = orjson.dumps(person("Grace"))
    head = (
        f"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Type: {MEDIA_TYPE}\r\n"
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
    assert service.wait() == 0
    assert start().names() == ["Grace"]
