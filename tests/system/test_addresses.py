"""The addresses on which the service listens, and those that it prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from registry.testing_databases import new_name
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, WORKERS, Service, environment, error_message

WITHOUT_IPV6 = """
import errno, os, socket, registry.__main__
class Socket(socket.socket):
    def __init__(self, family=socket.AF_INET, *arguments, **options):
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        super().__init__(family, *arguments, **options)
socket.socket = Socket
registry.__main__.main()
"""


@pytest.fixture
def start_on(start: Start, mongodb_uri: str) -> Start:
    """Start the service on an address."""

    def start_on(*arguments: str) -> Service:
        variables = {"MONGODB_URI": mongodb_uri, "REGISTRY_DATABASE": new_name()}
        return start("--auth", "off", *arguments, **variables)

    return start_on


def status(url: str, **headers: str) -> int:
    with urlopen(Request(url, headers=headers), timeout=TIMEOUT) as response:  # noqa: S310 - http
        number: int = response.status
    return number


@pytest.mark.parametrize("workers", WORKERS)
def test_all_addresses_are_those_of_ipv4_and_ipv6(start_on: Start, workers: str) -> None:
    service = start_on("--host", "::", "--workers", workers, "--metrics-port", "0")
    line = service.announcement
    metrics = re.search(r"Metrics: (http://127\.0\.0\.1:\d+/metrics)\n", line)
    assert metrics, line
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", service.url)
    assert "). It listens on all addresses of this machine. " in line
    assert "[::]" not in line
    for url in (f"{service.url}/persons", metrics[1]):
        for host in ("127.0.0.1", "[::1]", "localhost"):
            assert status(url.replace("127.0.0.1", host)) == 200


def test_ipv4_clients_are_known_by_their_own_address_on_all_addresses(start_on: Start) -> None:
    service = start_on("--host", "[::]", "--access-log", "on", "--trusted-proxy", "127.0.0.1")
    status(f"{service.url}/persons")
    assert " remote=127.0.0.1\n" in service.log_line()
    status(f"{service.url}/persons", **{"X-Forwarded-For": "198.51.100.7"})
    assert " remote=198.51.100.7\n" in service.log_line()


@pytest.mark.parametrize(
    ("host", "shown"),
    [("[::1]", "[::1]"), ("0.0.0.0", "127.0.0.1")],  # noqa: S104 - what is tested
)
def test_prints_a_visitable_address(host: str, shown: str, start_on: Start) -> None:
    service = start_on("--host", host)
    assert re.fullmatch(rf"http://{re.escape(shown)}:\d+", service.url)
    assert ("It listens on all addresses" in service.announcement) is (host != shown)
    assert (host in service.announcement) is (host == shown)
    assert status(f"{service.url}/persons") == 200


def test_a_machine_without_ipv6_is_reported_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_IPV6, "--data-dir", str(tmp_path), "--host", "::"]
    message = error_message(command, environment())
    assert "cannot listen on :: port 0 (Address family not supported by protocol)" in message
    assert "--host" in message
