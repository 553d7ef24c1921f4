"""The health checks while the database is frozen, and while the service stops."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import orjson

from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service, eventually
from tests.system.test_stop import refuses_connections


def health(connection: HTTPConnection, name: str) -> tuple[int, str]:
    connection.request("GET", f"/health/{name}")
    response = connection.getresponse()
    return response.status, orjson.loads(response.read())["status"]


def connect(service: Service) -> HTTPConnection:
    return HTTPConnection(urlsplit(service.url).netloc, timeout=TIMEOUT)


def test_a_service_is_ready_when_its_database_responds(start: Start) -> None:
    service = start()
    with closing(connect(service)) as connection:
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


def test_a_service_that_stops_is_not_ready(start: Start) -> None:
    service = start()
    with closing(connect(service)) as connection:
        assert health(connection, "live") == (200, "ok")
        service.process.terminate()
        assert eventually(lambda: refuses_connections(service))
        assert health(connection, "ready") == (503, "stopping")
