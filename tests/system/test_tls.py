"""TLS on the command line: its URLs, the reload of the certificate, and what cannot start."""

import signal
import ssl
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from tests.certificates import Authority
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, WORKERS, Service, eventually, start_error


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def connect(service: Service, authority: Authority) -> HTTPSConnection:
    url = urlsplit(service.url)
    context = authority.client_context()
    return HTTPSConnection(str(url.hostname), url.port, context=context, timeout=TIMEOUT)


def serial_number(service: Service, authority: Authority) -> object:
    """Return the serial number of the certificate that a new connection gets."""
    with closing(connect(service, authority)) as connection:
        connection.connect()
        assert isinstance(connection.sock, ssl.SSLSocket)
        return (connection.sock.getpeercert() or {})["serialNumber"]


@pytest.mark.parametrize("workers", WORKERS)
def test_sighup_reloads_the_certificate_in_every_worker_and_drops_no_connection(
    workers: str, start: Start, authority: Authority, mongodb_uri: str
) -> None:
    certificate, key, _ = authority.issue("used")
    options = ("--tls-certificate", certificate, "--tls-key", key, "--workers", workers)
    service = start(*options, mongodb_uri=mongodb_uri)
    assert service.url.startswith("https://127.0.0.1:")
    first = serial_number(service, authority)
    with closing(connect(service, authority)) as connection:
        for number in range(2):
            connection.request("GET", "/persons")
            document = orjson.loads(connection.getresponse().read())
            assert document["links"]["self"] == f"{service.url}/persons"
            if number == 0:
                authority.issue("used")
                service.process.send_signal(signal.SIGHUP)
                assert eventually(lambda: serial_number(service, authority) != first)
    assert eventually(lambda: all(serial_number(service, authority) != first for _ in range(20)))
    key.write_text("")
    service.process.send_signal(signal.SIGHUP)
    service.log_line("The previous TLS certificate remains in use")
    assert serial_number(service, authority) != first
    assert service.stop()[0] == 0


def test_an_unusable_certificate_is_reported_first(authority: Authority, tmp_path: Path) -> None:
    certificate, *_ = authority.issue("used")
    _, other, _ = authority.issue("other")
    options = ("--data-dir", tmp_path / "data", "--tls-certificate", certificate)
    message = start_error(*options, "--tls-key", other, status=2)
    assert "registry: --tls-certificate and --tls-key are not usable: key values" in message
    assert not (tmp_path / "data").exists()
