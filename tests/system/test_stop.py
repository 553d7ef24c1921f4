"""Stopping the service: it finishes open requests and leaves no processes; its health checks."""

import os
import pty
import shutil
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
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
from tests.support import complete_record
from tests.system.conftest import Start
from tests.system.service import (
    COMMAND,
    ROOT,
    TIMEOUT,
    WORKERS,
    Service,
    descendants,
    environment,
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


def responds(url: str) -> bool:
    with suppress(OSError), urlopen(url, timeout=TIMEOUT) as response:  # noqa: S310 - http
        return bool(response.status == 200)
    return False


def press_ctrl_c(service: Service) -> None:
    """Send SIGINT as a terminal does, to all processes in the group."""
    os.killpg(service.process.pid, signal.SIGINT)


def terminate(service: Service) -> None:
    service.process.terminate()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stored_computers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with more computers than the buffers of a connection can hold."""
    settings = Settings(data_dir=tmp_path_factory.mktemp("computers"))
    records = [
        complete_record({"_id": id_, "serial": "x" * 255, "person": None})
        for id_ in range(1, COMPUTERS + 1)
    ]
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
    [terminate, pytest.param(press_ctrl_c, marks=pytest.mark.slow)],
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
        if stop is not press_ctrl_c:
            stop(service)  # changes nothing, neither here nor while mongod stops
        document = orjson.loads(beginning + response.read())
        if stop is not press_ctrl_c:
            stop(service)
    assert document["meta"]["count"] == len(document["data"]) == computers
    status, log = service.end()
    assert (status, "Traceback" in log) == (0, False), log
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


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
def test_a_service_without_a_terminal_survives_sighup(workers: str, start: Start) -> None:
    service = start("--workers", workers)
    os.killpg(service.process.pid, signal.SIGHUP)
    assert service.names() == []
    assert service.stop() == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("under", [(), ("nohup",)], ids=["terminal", "nohup"])
def test_a_service_ends_with_its_terminal_except_under_nohup(
    under: tuple[str, ...], mongodb_uri: str, unused_tcp_port: int, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}/health/live"
    command = [*under, *map(str, COMMAND), "--port", str(unused_tcp_port)]
    process, terminal = pty.fork()
    if process == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
        os.chdir(tmp_path)  # where nohup writes what the service prints
        variables = environment(MONGODB_URI=mongodb_uri, PYTHONPATH=str(ROOT))
        os.execvpe(command[0], command, variables)  # noqa: S606
    assert eventually(lambda: responds(url))
    os.close(terminal)
    if under:
        assert responds(url)
        os.kill(process, signal.SIGTERM)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0


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
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_signal_stops_the_startup(number: signal.Signals, workers: str, start: Start) -> None:
    service = start("--workers", workers, waits=False)
    assert eventually((service.data_dir / "mongodb" / "mongod.lock").exists)
    assert service.stop(number) == (0, "")
    assert (service.data_dir / "mongodb" / "mongod.lock").read_text() == ""


@pytest.mark.slow
def test_a_killed_service_restarts_at_once(start: Start) -> None:
    for names in ([], ["Grace"], ["Grace", "Grace"]):
        service = start()
        assert service.names() == names
        service.request("/persons", person("Grace"))
        assert service.stop(signal.SIGKILL) == (-signal.SIGKILL, "")


def health(connection: HTTPConnection, name: str) -> tuple[int, str]:
    connection.request("GET", f"/health/{name}")
    response = connection.getresponse()
    return response.status, orjson.loads(response.read())["status"]


def http_connection(service: Service) -> HTTPConnection:
    return HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)


def test_a_service_is_ready_when_its_database_responds(start: Start) -> None:
    service = start()
    with closing(http_connection(service)) as connection:
        assert health(connection, "ready") == (200, "ok")
        os.kill(service.mongod, signal.SIGSTOP)
        try:
            # It may answer one more command before it stops.
            unavailable = (503, "database unavailable")
            assert eventually(lambda: health(connection, "ready") == unavailable)
            assert health(connection, "live") == (200, "ok")
        finally:
            os.kill(service.mongod, signal.SIGCONT)
        assert eventually(lambda: health(connection, "ready") == (200, "ok"))


def test_a_stopping_service_is_not_ready(start: Start, mongodb_uri: str) -> None:
    service = start(mongodb_uri=mongodb_uri)
    with closing(http_connection(service)) as connection:
        assert health(connection, "live") == (200, "ok")
        service.process.terminate()
        assert eventually(lambda: refuses_connections(service))
        assert health(connection, "ready") == (503, "stopping")
