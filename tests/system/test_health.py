"""The command `health`, with which containers check the service."""

import socket
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.system.conftest import Start
from tests.system.service import COMMAND, environment, run_command


def health(*arguments: str | Path, **variables: str) -> tuple[int, str]:
    done = run_command([*COMMAND, "health", *arguments], environment(**variables))
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_live_service_is_found_by_its_settings(start: Start, mongodb_uri: str) -> None:
    service = start(mongodb_uri=mongodb_uri)
    port = service.url.rpartition(":")[2]
    assert health("--port", port) == (0, "")
    assert health(REGISTRY_PORT=port, REGISTRY_HOST="0.0.0.0") == (0, "")  # noqa: S104 - of clients
    service.stop()
    reason = f"registry: 127.0.0.1 port {port} does not respond: "
    status, line = health("--port", port)
    assert (status, line.startswith(reason), line.count("\n")) == (1, True, 1)


@pytest.mark.slow
def test_a_service_with_tls_is_found_whatever_its_certificate(
    start: Start, mongodb_uri: str, tmp_path: Path
) -> None:
    certificate, key, _ = Authority(tmp_path).issue("registry.example.com")
    options = ("--tls-certificate", certificate, "--tls-key", key)
    service = start(*options, mongodb_uri=mongodb_uri)
    assert health("--port", service.url.rpartition(":")[2], *options) == (0, "")


@pytest.mark.slow
def test_another_program_is_not_taken_for_the_service(unused_tcp_port: int) -> None:
    with socket.create_server(("127.0.0.1", unused_tcp_port)):  # which never responds
        status, line = health("--port", str(unused_tcp_port))
    assert status == 1
    assert line.endswith("has not responded within 10 s\n")


def test_a_setting_that_is_not_valid_is_named() -> None:
    status, line = health("--port", "x")
    assert status == 2
    assert line.startswith("registry: --port: ")
