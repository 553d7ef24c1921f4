"""A full disk: changes are refused while resources can be read; without any space, mongod ends."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import orjson
import pytest

from registry.mongod.data_directory import RESERVE_BYTES
from registry.protocol import CSV_TYPE
from tests.support import ATOMIC, MEDIA_TYPE, OPERATIONS, add, new
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service, eventually, person, start_error

pytestmark = pytest.mark.slow

BATCH = 500
"""Persons per request: enough for the disk to be needed."""

MARGIN_BYTES = 2**20
"""What changes may still use."""

REFUSED = "503 disk_full"

NO_SPACE = "its disk has less than 32 MB of free space"


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


def fill(disk: Path, free: int = 0) -> None:
    """Take all but this many bytes of the free space."""
    with (disk / "filler").open("ab") as file:
        while (size := shutil.disk_usage(disk).free - free) > 0:
            with suppress(OSError):  # mongod has taken some of it since
                os.posix_fallocate(file.fileno(), 0, size)
                return


def send(
    service: Service, method: str, path: str, document: Any = None, media_type: str = MEDIA_TYPE
) -> str:
    """Send a request; return the status, and the code of the error if there is one."""
    body = None if document is None else orjson.dumps(document)
    headers = {"Content-Type": media_type}
    request = Request(service.url + path, body, headers, method=method)  # noqa: S310 - http
    try:
        with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - http
            return str(response.status)
    except HTTPError as error:
        with error:
            return f"{error.code} {orjson.loads(error.read())['errors'][0]['code']}"


def import_file(service: Service, file: bytes) -> list[Any]:
    """Import persons; return the lines of the report."""
    url = f"{service.url}/persons?rows[key]=first_name,last_name"
    request = Request(url, file, {"Content-Type": CSV_TYPE})  # noqa: S310 - http
    with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - http
        return [orjson.loads(line) for line in response]


def create_batch(service: Service) -> str:
    """Create persons, all or none; return as `send` does."""
    operation = add(new("person", first_name="x" * 255, last_name="y" * 255))
    return send(service, "POST", "/operations", {OPERATIONS: BATCH * [operation]}, ATOMIC)


def can_write(service: Service) -> bool:
    try:
        service.request("/persons", person("Grace"))
    except URLError:
        return False
    return True


def test_only_changes_are_refused_while_the_disk_is_nearly_full(start: Start, disk: Path) -> None:
    service = start(data_dir=disk / "data")
    service.request("/persons", person("Ada"))
    fill(disk, RESERVE_BYTES + MARGIN_BYTES)
    created = 1
    while (status := create_batch(service)) == "200":
        created += BATCH
    assert status == REFUSED
    update = {"data": {"type": "person", "id": "1", "attributes": {"last_name": "King"}}}
    linkage = "/persons/1/relationships/computers"
    assert send(service, "POST", "/persons", person("Grace")) == REFUSED
    assert send(service, "PATCH", "/persons/1", update) == REFUSED
    assert send(service, "PATCH", linkage, {"data": []}) == REFUSED
    assert send(service, "DELETE", "/persons/1") == REFUSED
    assert service.request("/persons")["meta"]["count"] == created
    mongod = service.mongod
    (disk / "filler").unlink()
    assert eventually(lambda: can_write(service))
    assert service.request("/persons")["meta"]["count"] == created + 1
    assert service.mongod == mongod
    assert service.stop()[0] == 0


def test_an_import_ends_when_the_disk_is_full_and_is_completed_when_it_is_not(
    start: Start, disk: Path
) -> None:
    service = start(data_dir=disk / "data")
    rows = "".join(f"{number},{'x' * 200}\n" for number in range(100_000))
    file = f"first_name,last_name\n{rows}".encode()
    fill(disk, RESERVE_BYTES + MARGIN_BYTES)
    *_, counts, error = import_file(service, file)
    assert [each["code"] for each in error["errors"]] == ["disk_full"]
    assert "complete" not in counts["meta"]
    counted = counts["meta"]["created"]["person"]
    assert counted == service.request("/persons?page[number]=1")["meta"]["total"]
    (disk / "filler").unlink()
    assert eventually(lambda: can_write(service))
    totals = import_file(service, file)[-1]["meta"]
    assert totals["complete"]
    assert totals["unchanged"]["person"] == counted
    assert totals["created"]["person"] == 100_000 - counted


def test_a_service_without_space_ends_and_starts_when_there_is_some(
    start: Start, disk: Path
) -> None:
    service = start(data_dir=disk / "data")
    service.request("/persons", person("Ada"))
    fill(disk)
    created = 1
    while (
        status := create_batch(service)
    ) == "200":  # into what is allocated, until the next check
        created += BATCH
    with suppress(ProcessLookupError):  # it may have exited
        os.kill(service.mongod, signal.SIGKILL)
    exit_status, log = service.end()
    assert exit_status == 1
    assert re.match(rf"registry: mongod has ended: .*: {NO_SPACE}", log.splitlines()[-1])
    fill(disk)
    message = start_error("--data-dir", disk / "data")
    assert re.search(rf"{NO_SPACE}|No space left on device", message)
    (disk / "filler").unlink()
    again = start(data_dir=disk / "data")
    in_doubt = 0 if status == REFUSED else BATCH
    assert again.request("/persons")["meta"]["count"] - created in {0, in_doubt}
    assert again.stop()[0] == 0
