"""Unique attributes of a service with several workers, and starts that are refused."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.error import HTTPError

import orjson
import pytest

from tests.system.conftest import Start
from tests.system.service import Service, start_error

UNIQUE = ("--workers", "2", "--unique", "computer.serial")

SERIALS, CLIENTS = 10, 8


def create(service: Service, serial: str) -> tuple[int, str]:
    """Create a computer on a new connection; return the status and the path of who has it."""
    data = {"data": {"type": "computer", "attributes": {"serial": serial}}}
    try:
        return 201, service.request("/computers", data)["links"]["self"]
    except HTTPError as error:
        with error:
            (member,) = orjson.loads(error.read())["errors"]
        return error.code, member["links"]["about"]


def stop(service: Service) -> str:
    """Stop a service and return its log."""
    status, log = service.stop()
    assert status == 0
    return log


@pytest.mark.slow
def test_two_workers_create_a_serial_once_and_no_start_has_duplicates(start: Start) -> None:
    service = start(*UNIQUE)
    serials = [f"SN-{number}" for number in range(SERIALS) for _ in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        results = list(pool.map(partial(create, service), serials))
    paths = {path for _, path in results}
    assert len(set(zip(serials, (path for _, path in results), strict=True))) == SERIALS
    assert Counter(results) == {
        **{(201, path): 1 for path in paths},
        **{(409, path): CLIENTS - 1 for path in paths},
    }
    stop(service)
    service = start(data_dir=service.data_dir)
    status, second = create(service, "SN-0")
    assert status == 201
    assert "WARNING Dropped the index unique_serial of computers" in stop(service)
    error = start_error("--data-dir", service.data_dir, *UNIQUE)
    ids = ", ".join(path.rpartition("/")[2] for path in (results[0][1], second))
    assert error == (
        "registry: computer.serial cannot be unique, as computers have these values more than "
        f'once: "SN-0" (ids {ids})\n'
    )
