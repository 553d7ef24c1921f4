"""docker-compose.yml: its services are complete, and its MongoDB requires a key and a password."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.mongods import program_of
from tests.ports import free_port
from tests.replica_set import Processes
from tests.storage.waiting import eventually
from tests.system.conftest import Start
from tests.system.service import ROOT, person, start_error

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())

SERVICES: Mapping[str, Any] = COMPOSE["services"]

URI: str = SERVICES["registry"]["environment"]["MONGODB_URI"]

MEMBERS = re.findall(r"mongo\d", URI)

HEALTH_CHECK: str = SERVICES["mongo1"]["healthcheck"]["test"][-1]

PASSWORDS = {"MONGODB_PASSWORD": "5ec7e7", "MONGODB_ADMIN_PASSWORD": "ad314"}


@pytest.fixture
def processes() -> Iterator[Processes]:
    processes = Processes()
    yield processes
    processes.end()


def test_the_services_are_complete() -> None:
    assert SERVICES["registry"]["build"] == "."
    assert len(MEMBERS) == 3
    assert set(SERVICES) == {"registry", *MEMBERS}
    assert set(COMPOSE["volumes"]) == set(MEMBERS)
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)
    assert re.findall(r"host: \"(mongo\d):27017\"", HEALTH_CHECK) == MEMBERS


def test_each_mongod_has_the_key_in_a_file_that_it_accepts() -> None:
    assert COMPOSE["secrets"] == {"mongodb_key": {"environment": "MONGODB_KEY"}}
    for member in MEMBERS:
        assert SERVICES[member]["secrets"] == [
            {"source": "mongodb_key", "uid": "999", "gid": "999", "mode": 0o400}
        ]
        assert "--keyFile /run/secrets/mongodb_key" in " ".join(SERVICES[member]["command"])


def test_no_password_has_a_default() -> None:
    variables = [URI, *SERVICES["mongo1"]["environment"].values()]
    used = re.findall(r"\$\{(\w+)(:\?[^}]+)?\}", " ".join(variables))
    assert {name for name, _ in used} == set(PASSWORDS)
    # Compose stops if one is missing where it is required, which is once for each.
    assert {name for name, message in used if message} == set(PASSWORDS)


def member(program: str, home: Path, processes: Processes) -> str:
    """Start a member with the command in the file, except for its paths; return its host."""
    key = home / "key"
    key.write_text("0123456789abcdef" * 4)
    key.chmod(COMPOSE["services"]["mongo1"]["secrets"][0]["mode"])
    (home / "db").mkdir()
    here = {"mongod": program, "/run/secrets/mongodb_key": str(key), "--bind_ip_all": "--quiet"}
    command = [here.get(word, word) for word in SERVICES["mongo1"]["command"]]
    port = str(free_port())
    files = ("--dbpath", home / "db", "--nounixsocket")
    processes.start([*command, *files, "--port", port], stdout=subprocess.DEVNULL)
    return f"127.0.0.1:{port}"


async def test_the_registry_needs_the_password_of_a_user_with_few_rights(
    mongodb_uri: str, tmp_path: Path, processes: Processes, start: Start
) -> None:
    """pymongo sends the commands of the health check, as mongosh is not installed."""
    host = member(await program_of(mongodb_uri), tmp_path, processes)
    local = f"mongodb://{host}/?directConnection=true"
    with MongoClient[dict[str, Any]](local) as client:
        config = {"_id": "registry", "members": [{"_id": 0, "host": host}]}
        client.admin.command("replSetInitiate", config)

        assert await eventually(lambda: client.admin.command("hello")["isWritablePrimary"], 30)
        (admin_role,) = re.findall(r'user: "admin".*roles: \["(\w+)"\]', HEALTH_CHECK)
        admin = {"pwd": PASSWORDS["MONGODB_ADMIN_PASSWORD"], "roles": [admin_role]}
        client.admin.command({"createUser": "admin", **admin})
        with pytest.raises(OperationFailure, match="requires authentication"):
            client.registry.persons.find_one()
    password = PASSWORDS["MONGODB_ADMIN_PASSWORD"]
    with MongoClient[dict[str, Any]](local, username="admin", password=password) as client:
        roles = [{"role": role, "db": db} for role, db in _roles()]
        user = {"pwd": PASSWORDS["MONGODB_PASSWORD"], "roles": roles}
        client.admin.command({"createUser": "registry", **user})

    uri = re.sub(r"\$\{(\w+).*?\}", lambda name: PASSWORDS[name[1]], URI)
    uri = uri.replace(",".join(MEMBERS), host)
    service = start(MONGODB_URI=uri)
    service.request("/persons", person("Grace"))
    assert service.names() == ["Grace"]
    assert service.stop() == (0, "")
    message = start_error(MONGODB_URI=uri.replace(PASSWORDS["MONGODB_PASSWORD"], "wrong"))
    assert "Authentication failed" in message


def _roles() -> list[tuple[str, str]]:
    roles = re.findall(r'role: "(\w+)", db: "(\w+)"', HEALTH_CHECK)
    assert roles == [("readWrite", "registry")]
    return roles
