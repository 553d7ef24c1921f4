"""A full disk: writes fail, as a whole, until it has space again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import orjson
import pytest

from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service, eventually, person

EXTENSION = 'application/vnd.api+json; ext="https://jsonapi.org/ext/atomic"'
BATCH = 500
"""Persons per request: enough for the disk to be needed."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=250m", "tmpfs", str(path)]
    try:
        subprocess.run(mount, check=True, capture_output=True)  # noqa: S603 - a constant command
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a file system")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)  # noqa: S603, S607 - as above


def fill(disk: Path) -> None:
    with (disk / "filler").open("ab") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free)


def create_batch(service: Service) -> int:
    """Create persons, all or none; return the status."""
    attributes = {"first_name": "x" * 255, "last_name": "y" * 255}
    operation = {"op": "add", "data": {"type": "person", "attributes": attributes}}
    body = orjson.dumps({"atomic:operations": BATCH * [operation]})
    request = Request(f"{service.url}/operations", body, {"Content-Type": EXTENSION})  # noqa: S310
    try:
        with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - http
            status: int = response.status
            return status
    except HTTPError as error:
        with error:
            return error.code


def can_write(service: Service) -> bool:
    try:
        service.request("/persons", person("Grace"))
    except URLError:
        return False
    return True


def test_writes_fail_as_a_whole_until_the_disk_has_space_again(start: Start, disk: Path) -> None:
    service = start(data_dir=disk / "data")
    service.request("/persons", person("Ada"))
    fill(disk)
    assert service.request("/persons/1")["data"]["attributes"]["first_name"] == "Ada"
    created = 1
    while (status := create_batch(service)) == 200:
        created += BATCH
    assert status == 503
    assert create_batch(service) == 503
    (disk / "filler").unlink()
    assert eventually(lambda: can_write(service))
    assert service.request("/persons")["meta"]["count"] == created + 1
    service.process.terminate()
    _, log = service.process.communicate(timeout=TIMEOUT)
    assert service.process.returncode == 0
    assert f"The disk of {disk}/data is full" in log or "when the disk has free space" in log


def test_a_mongod_that_exits_on_a_full_disk_is_restarted_when_there_is_space(
    start: Start, disk: Path
) -> None:
    service = start(data_dir=disk / "data")
    service.request("/persons", person("Ada"))
    fill(disk)
    os.kill(service.mongod, signal.SIGKILL)
    assert not can_write(service)
    (disk / "filler").unlink()
    assert eventually(lambda: can_write(service))
    assert service.names() == ["Ada", "Grace"]
    service.process.terminate()
    _, log = service.process.communicate(timeout=TIMEOUT)
    assert service.process.returncode == 0
    assert "mongod is restarted when the disk has free space" in log
