"""Starting the service: its data, its addresses, its output, and its error messages."""

import re
import resource
import shlex
import socket
from contextlib import ExitStack
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from tests.support import Database
from tests.system.conftest import Start
from tests.system.service import (
    COMMAND,
    TIMEOUT,
    WORKERS,
    environment,
    error_message,
    person,
    start_error,
)

OPEN = ("--auth", "off")


def status(url: str, **headers: str) -> int:
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:  # noqa: S310 - http
        number: int = response.status
    return number


def test_more_connections_are_served_than_open_files(start: Start, mongodb_uri: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        service = start(mongodb_uri=mongodb_uri)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1_024, hard), hard))
        port = urlsplit(service.url).port
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert service.request("/persons")["meta"] == {"count": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "closed")]
)
def test_a_service_without_output_logs_urls(redirection: str, reason: str, start: Start) -> None:
    script = f'exec {shlex.join(COMMAND)} "$@" {redirection}'
    service = start(command=("bash", "-c", script, "bash"), waits=False)
    warning = f"WARNING Standard output ({reason}): Registry ready: page http"
    assert warning in service.log_line()
    assert service.stop() == (0, "")


def test_the_service_prints_the_public_url_if_set(start: Start, mongodb_uri: str) -> None:
    variables = {"REGISTRY_PUBLIC_URL": "https://registry.example.com/", "REGISTRY_AUTH": "off"}
    service = start(mongodb_uri=mongodb_uri, **variables)
    assert "API https://registry.example.com/persons," in service.announcement


async def test_no_mongod_is_started_if_there_is_a_cluster(
    start: Start, mongodb_uri: str, database: Database
) -> None:
    service = start(MONGODB_URI=mongodb_uri, REGISTRY_DATABASE=database.name)
    service.request("/persons", person("Grace"))
    assert not service.data_dir.exists()
    assert service.stop() == (0, "")
    assert await database.persons.distinct("first_name") == ["Grace"]


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1", "..", "x" * 70])
def test_an_address_of_another_machine_is_reported(host: str) -> None:
    assert f"cannot listen on {host} port 0 (" in start_error("--host", host)


@pytest.mark.slow
def test_a_data_directory_in_use_is_reported(start: Start) -> None:
    service = start()
    message = start_error("--data-dir", service.data_dir)
    assert "in use by another registry" in message
    assert "--data-dir" in message
    assert service.names() == []


def test_an_invalid_setting_is_reported_with_its_variable() -> None:
    message = error_message(COMMAND, environment() | {"MONGODB_URI": "postgres://db"}, status=2)
    assert message.startswith("registry: MONGODB_URI: ")


@pytest.mark.parametrize("workers", WORKERS)
def test_a_service_on_all_addresses_has_ipv4_and_ipv6(
    start: Start, workers: str, mongodb_uri: str
) -> None:
    options = ("--host", "::", "--workers", workers, "--metrics-port", "0", *OPEN)
    logs = ("--access-log", "on", "--trusted-proxy", "127.0.0.1")
    service = start(*options, *logs, mongodb_uri=mongodb_uri)
    line = service.announcement
    metrics = re.search(r"Metrics: (http://127\.0\.0\.1:\d+/metrics)\n", line)
    assert metrics, line
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", service.url)
    assert "). It listens on all addresses of this machine. " in line
    assert "[::]" not in line
    assert status(f"{service.url}/persons") == 200
    assert " remote=127.0.0.1\n" in service.log_line(), "not the address mapped to IPv6"
    status(f"{service.url}/persons", **{"X-Forwarded-For": "198.51.100.7"})
    assert " remote=198.51.100.7\n" in service.log_line()
    for url in (f"{service.url}/persons", metrics[1]):
        for host in ("127.0.0.1", "[::1]", "localhost"):
            assert status(url.replace("127.0.0.1", host)) == 200


@pytest.mark.parametrize(
    ("host", "shown"),
    [("::1", "[::1]"), ("0.0.0.0", "127.0.0.1")],  # noqa: S104 - what is tested
)
def test_prints_a_visitable_address(host: str, shown: str, start: Start, mongodb_uri: str) -> None:
    service = start("--host", host, *OPEN, mongodb_uri=mongodb_uri)
    assert re.fullmatch(rf"http://{re.escape(shown)}:\d+", service.url)
    is_wide = shown != f"[{host}]"
    assert ("It listens on all addresses" in service.announcement) is is_wide
    assert (host in service.announcement) is not is_wide
    assert status(f"{service.url}/persons") == 200
