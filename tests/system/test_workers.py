"""Several processes on one port: they are one service, and one that ends is replaced."""

from __future__ import annotations

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import orjson
import pytest

from registry.processes.supervisor import reserve_port
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service, person, refusal
from tests.system.test_stop import await_that, has_ended

TWO = ("--workers", "2")


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(number) for number in listed.split()]


def gunicorn_of(service: Service) -> int:
    (gunicorn,) = (
        child
        for child in children(service.process.pid)
        if b"registry.processes.workers" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return gunicorn


def workers_of(service: Service) -> list[int]:
    return children(gunicorn_of(service))


def listening(service: Service) -> int:
    """Return how many sockets listen on the port of the service."""
    port = int(service.url.rpartition(":")[2])
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in rows)


def ids_of_new_persons(service: Service, count: int) -> list[int]:
    """Create persons over as many connections, several at a time."""

    def create(number: int) -> int:
        return int(service.request("/persons", person(f"Grace {number}"))["data"]["id"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(create, range(count)))


def test_they_are_one_service_that_says_once_where_it_is(begin: Start) -> None:
    service = begin(*TWO)
    line = service.wait_until_ready()
    assert line.startswith(f"Registry ready: API {service.url}/persons, Swagger UI ")
    assert len(workers_of(service)) == listening(service) == 2
    mongod = service.mongod
    assert sorted(ids_of_new_persons(service, 40)) == list(range(1, 41))
    for number in range(41, 51):  # whichever process answers
        assert service.request("/persons", person("Ada"))["data"]["id"] == str(number)
        assert service.request(f"/persons/{number}")["data"]["attributes"]["first_name"] == "Ada"
    assert service.end() == 0
    assert has_ended(mongod)


def test_each_of_them_answers_what_is_no_http_as_json_api_asks(start: Start) -> None:
    service = start(*TWO)
    host, port = service.url.removeprefix("http://").split(":")
    for _ in range(8):
        with socket.create_connection((host, int(port)), TIMEOUT) as connection:
            connection.sendall(b"no HTTP\r\n\r\n")
            head, _, body = b"".join(iter(lambda: connection.recv(4096), b"")).partition(
                b"\r\n\r\n"
            )
        assert head.startswith((b"HTTP/1.0 400 ", b"HTTP/1.1 400 "))
        assert orjson.loads(body)["errors"][0]["status"] == "400"


def test_one_that_is_killed_is_replaced_and_the_others_serve_meanwhile(start: Start) -> None:
    service = start(*TWO)
    killed, other = workers_of(service)
    with urlopen(f"{service.url}/persons", timeout=TIMEOUT):  # noqa: S310 - http
        os.kill(killed, signal.SIGKILL)
        await_that(lambda: has_ended(killed))
    assert service.names() == []
    await_that(lambda: len(workers_of(service)) == listening(service) == 2)
    assert killed not in workers_of(service)
    assert other in workers_of(service)
    assert ids_of_new_persons(service, 8)
    service.process.terminate()
    said, log = service.process.communicate(timeout=TIMEOUT)
    assert said == ""
    assert f"ERROR Worker (pid:{killed}) was sent SIGKILL!" in log
    assert log.count("\n") == 1
    assert service.process.returncode == 0


def test_a_service_that_is_killed_leaves_nothing_behind(start: Start) -> None:
    service = start(*TWO)
    processes = [service.mongod, gunicorn_of(service), *workers_of(service)]
    assert service.end(signal.SIGKILL) == -signal.SIGKILL
    await_that(lambda: all(map(has_ended, processes)))


def test_a_service_whose_gunicorn_is_killed_ends_with_a_word_on_it(start: Start) -> None:
    service = start(*TWO)
    processes = [service.mongod, *workers_of(service)]
    os.kill(gunicorn_of(service), signal.SIGKILL)
    _, log = service.process.communicate(timeout=TIMEOUT)
    assert log.startswith("registry: gunicorn has exited unexpectedly")
    assert log.count("\n") == 1
    assert service.process.returncode == 1
    await_that(lambda: all(map(has_ended, processes)))


def test_a_port_of_another_service_is_refused(start: Start, tmp_path: Path) -> None:
    service = start(*TWO)
    port = service.url.rpartition(":")[2]
    for workers in ("1", "2"):
        said = refusal(*("--workers", workers, "--port", port, "--data-dir", tmp_path / "other"))
        assert f"cannot listen on 127.0.0.1 port {port} (Address already in use)" in said
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_is_kept_for_the_workers_while_none_of_them_listens(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with reserve_port(socket.create_server((host, 0), family=family)) as held:
        address = held.getsockname()
        for _ in range(2):  # before there is a worker, and after
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address[:2])
            with pytest.raises(OSError, match="Address already in use"):
                socket.create_server(address, family=family)
            with (
                socket.create_server(address, family=family, reuse_port=True),
                socket.create_server(address, family=family, reuse_port=True),
            ):
                socket.create_connection(address[:2]).close()


def test_a_cluster_that_cannot_be_reached_is_refused(unused_tcp_port: int) -> None:
    said = refusal(*TWO, MONGODB_URI=f"mongodb://me:secret@127.0.0.1:{unused_tcp_port}")
    assert "MONGODB_URI: 127.0.0.1" in said
    assert "Connection refused" in said
    assert "secret" not in said


def test_a_mongod_that_cannot_run_is_refused(tmp_path: Path) -> None:
    said = refusal(*TWO, "--data-dir", tmp_path / "data", REGISTRY_MONGOD="/bin/false")
    assert "mongod does not start" in said
