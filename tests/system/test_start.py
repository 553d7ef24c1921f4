"""Starting the service: what it finds and says, and what it says when it cannot."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.mongods import client_of, other_mongod
from tests.system.conftest import Start
from tests.system.service import COMMAND, complaint, environment, person, refusal


def test_a_second_start_finds_the_data_of_the_first(start: Start) -> None:
    first = start()
    first.request("/persons", person("Grace"))
    assert first.end() == 0
    second = start()
    assert second.names() == ["Grace"]
    second.request("/persons", person("Ada"))
    assert second.names() == ["Grace", "Ada"]


def test_a_moved_data_directory_keeps_its_data(start: Start, tmp_path: Path) -> None:
    first = start()
    first.request("/persons", person("Grace"))
    assert first.end() == 0
    moved = tmp_path / f"Größe, {'x' * 120}"
    (tmp_path / "data").rename(moved)
    second = start(data_dir=moved)
    assert second.names() == ["Grace"]
    assert second.end() == 0


def test_one_line_says_where_the_service_is(begin: Start) -> None:
    service = begin("--host", "localhost")
    line = service.wait_until_ready()
    assert re.fullmatch(
        rf"Registry ready: API {service.url}/persons, Swagger UI {service.url}/api/swagger/ .*\n",
        line,
    )
    assert service.request("/persons")["meta"] == {"count": 0}
    assert service.end() == 0


def test_the_public_url_is_what_it_says_where_there_is_one(begin: Start) -> None:
    service = begin(REGISTRY_PUBLIC_URL="https://registry.example.com/")
    assert "API https://registry.example.com/persons," in service.wait_until_ready()


async def test_with_a_cluster_no_mongod_is_started(start: Start, mongodb_uri: str) -> None:
    database = f"test_{uuid4().hex}"
    service = start(MONGODB_URI=mongodb_uri, REGISTRY_DATABASE=database)
    service.request("/persons", person("Grace"))
    assert not service.data_dir.exists()
    assert service.end() == 0
    async with client_of(mongodb_uri) as client:
        stored = await client[database].persons.find_one()
        await client.drop_database(database)
    assert stored
    assert stored["first_name"] == "Grace"


def test_a_port_that_is_taken_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = refusal("--port", str(port), "--data-dir", tmp_path / "data")
    assert f"cannot listen on 127.0.0.1 port {port} (Address already in use)" in said
    assert "--port" in said
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1", "..", "x" * 70])
def test_a_host_that_is_not_here_is_refused(host: str) -> None:
    assert f"cannot listen on {host} port 0 (" in refusal("--host", host)


def test_a_data_directory_in_use_is_refused(start: Start) -> None:
    service = start()
    said = refusal("--data-dir", service.data_dir)
    assert f"in use by another registry (process {service.process.pid})" in said
    assert "--data-dir" in said
    assert service.names() == []


def test_a_data_directory_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refusal(REGISTRY_DATA_DIR=str(tmp_path / "file" / "data"))
    assert "cannot write to data directory" in said
    assert "REGISTRY_DATA_DIR" in said


def test_a_platform_without_mongod_is_told_what_to_do(tmp_path: Path) -> None:
    without_wheel = "import sys; sys.modules['fiftyone'] = None; import registry.__main__ as m"
    command = [sys.executable, "-c", f"{without_wheel}; m.main()", "--data-dir", str(tmp_path)]
    said = complaint(command, environment(PATH=""))
    assert "no mongod for this platform: install MongoDB" in said


def test_a_mongod_that_cannot_run_is_told_with_its_reason(tmp_path: Path) -> None:
    mongod = tmp_path / "mongod"
    mongod.write_text("#!/bin/sh\necho no such library >&2\nexit 127\n")
    mongod.chmod(0o755)
    said = refusal("--data-dir", tmp_path / "data", REGISTRY_MONGOD=str(mongod))
    assert "mongod does not start: no such library" in said


def test_a_cluster_that_cannot_be_reached_is_refused(unused_tcp_port: int) -> None:
    said = refusal(MONGODB_URI=f"mongodb://me:secret@127.0.0.1:{unused_tcp_port}")
    assert "MONGODB_URI: 127.0.0.1" in said
    assert "Connection refused" in said
    assert "secret" not in said


async def test_a_mongod_that_is_no_replica_set_is_refused(mongodb_uri: str) -> None:
    async with other_mongod(mongodb_uri) as uri:
        assert "not a member of a replica set" in refusal(MONGODB_URI=uri)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("REGISTRY_PORT", "http"),
        ("REGISTRY_DATABASE", "a b"),
        ("REGISTRY_WORKERS", "0"),
        ("REGISTRY_PUBLIC_URL", "example.com"),
        ("MONGODB_URI", "postgres://db"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_by_its_name(variable: str, value: str) -> None:
    said = complaint(COMMAND, environment() | {variable: value})
    assert said.startswith(f"registry: {variable}: ")
