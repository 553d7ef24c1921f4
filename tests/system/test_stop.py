"""Ending the service: what it finishes first, and what it never leaves behind."""

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
from registry.storage import client as storage
from tests.support import MEDIA_TYPE
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service, person


def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def await_that(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
    """Do what a terminal does: send the signal to all processes of the session's group."""
    os.killpg(service.process.pid, signal.SIGINT)


def terminate(service: Service) -> None:
    service.process.terminate()


@pytest.fixture
async def crowd(tmp_path: Path) -> int:
    """The number of computers that were stored: more than fit between a server and a client."""
    async with storage.connect(Settings(data_dir=tmp_path / "data")) as commands:
        computers = [{"_id": one, "serial": "x" * 255, "person": None} for one in range(1, 40_001)]
        await commands.database.computers.insert_many(computers)
    return len(computers)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("ask", [press_ctrl_c, terminate])
def test_requests_under_way_are_finished_first(
    ask: Callable[[Service], None], workers: str, crowd: int, start: Start
) -> None:
    service = start("--workers", workers)
    mongod = service.mongod
    with urlopen(f"{service.url}/computers", timeout=TIMEOUT) as answer:  # noqa: S310 - http
        begun = answer.read(1_000)
        ask(service)
        await_that(lambda: refuses_connections(service))
        document = orjson.loads(begun + answer.read())
    assert document["meta"]["count"] == len(document["data"]) == crowd
    assert service.wait() == 0
    assert has_ended(mongod)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_that_follow_do_not_disturb_the_end(
    number: signal.Signals, workers: str, start: Start
) -> None:
    service = start("--workers", workers)
    mongod = service.mongod
    for _ in range(3):
        service.process.send_signal(number)
        time.sleep(0.05)
    assert service.end(number) == 0
    assert has_ended(mongod)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_it(
    number: signal.Signals, workers: str, begin: Start
) -> None:
    service = begin("--workers", workers)
    await_that((service.data_dir / "mongodb" / "mongod.lock").exists)
    assert service.end(number) == 0
    assert (service.data_dir / "mongodb" / "mongod.lock").read_text() == ""


def test_a_service_that_is_killed_leaves_no_mongod(start: Start) -> None:
    service = start()
    service.request("/persons", person("Grace"))
    mongod = service.mongod
    assert service.end(signal.SIGKILL) == -signal.SIGKILL
    await_that(lambda: has_ended(mongod))


def test_a_service_that_is_killed_can_be_started_again_at_once(start: Start) -> None:
    for names in ([], ["Grace"], ["Grace", "Grace"]):
        service = start()
        assert service.names() == names
        service.request("/persons", person("Grace"))
        assert service.end(signal.SIGKILL) == -signal.SIGKILL


def test_a_service_whose_mongod_has_ended_says_so_and_ends_well(start: Start) -> None:
    service = start()
    os.kill(service.mongod, signal.SIGKILL)
    assert service.process.stderr
    assert "mongod has ended: signal 9 (Killed)" in service.process.stderr.readline()
    assert service.end() == 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_request_whose_body_is_on_its_way_is_finished_first(workers: str, start: Start) -> None:
    service = start("--workers", workers)
    body = orjson.dumps(person("Grace"))
    head = (
        f"POST /persons HTTP/1.1\r\nHost: h\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    )
    with connect(service) as connection, connection.makefile("rb") as answer:
        connection.sendall(head.encode() + body[:9])
        assert answer.readline() == b"HTTP/1.1 100 Continue\r\n"
        terminate(service)
        await_that(lambda: refuses_connections(service))
        connection.sendall(body[9:])
        assert answer.readline() == b"\r\n"
        assert answer.readline() == b"HTTP/1.1 201 Created\r\n"
    assert service.wait() == 0
    assert start().names() == ["Grace"]
