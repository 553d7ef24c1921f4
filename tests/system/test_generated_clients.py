"""Clients that are generated from the description of the running service, and then use it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service

GENERATOR = Path(sys.executable).with_name("openapi-python-client")
PACKAGE = "generated_client"

Call = Callable[..., Any]


@pytest.fixture
def service(start: Start) -> Service:
    return start()


@pytest.fixture
def package(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Generate a client, without any warning; yield the name of its package."""
    config = tmp_path / "config.json"
    config.write_text('{"post_hooks": [], "literal_enums": true}')
    done = subprocess.run(  # noqa: S603 - the generator of this test
        [
            *(GENERATOR, "generate", "--meta", "none", "--fail-on-warning", "--config", config),
            *("--url", f"{service.url}/api/swagger/swagger.json"),
            *("--output-path", tmp_path / PACKAGE),
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.syspath_prepend(tmp_path)
    yield PACKAGE
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def call(service: Service, package: str) -> Iterator[Call]:
    """A function that calls an operation: its module, its arguments, and the expected status."""
    with import_module(package).Client(base_url=service.url) as client:

        def call_operation(module: str, *path: Any, status: int = 200, **more: Any) -> Any:
            operation = import_module(f"{package}.api.{module}")
            response = operation.sync_detailed(*path, client=client, **more)
            assert response.status_code == status, response.content
            return response.parsed

        yield call_operation


def model(name: str, document: Any) -> Any:
    """Return an instance of a class of the client from a document."""
    module = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]
    return getattr(import_module(f"{PACKAGE}.models.{module}"), name).from_dict(document)


def creation(type_name: str, **attributes: str) -> Any:
    document = {"data": {"type": type_name, "attributes": attributes}}
    return model(f"{type_name.title()}Create", document)


def test_a_generated_python_client_has_all_operations_and_runs_the_scenario(call: Call) -> None:
    grace = creation("person", first_name="Grace", last_name="Hopper", email="grace@example.com")
    created = call("person.create_person", body=grace, status=201)
    assert (created.data.id, created.data.attributes.email) == ("1", "grace@example.com")
    for number in range(3):
        call("computer.create_computer", body=creation("computer", serial=f"{number}"), status=201)

    to_computers = {"data": [{"type": "computer", "id": "1"}, {"type": "computer", "id": 2}]}
    linkage = model("ComputerToManyChange", to_computers)
    call("person.replace_person_computers", 1, body=linkage, status=204)
    removal = model("ComputerToManyRemoval", {"data": [{"type": "computer", "id": "2"}]})
    call("person.remove_person_computers", 1, body=removal, status=204)
    (member,) = call("person.read_person_computers_linkage", 1).data
    assert member.id == "1"

    listed = call("person.list_persons", include=["computers"], filterfirst_name=["Grace"])
    assert listed.data[0].attributes.full_name == "Grace Hopper"
    assert [one.attributes.serial for one in listed.included] == ["0"]
    page = call("computer.list_computers", pagenumber=1, pagesize=2, sort="-serial,id")
    assert ([one.id for one in page.data], page.meta.total) == (["3", "2"], 3)
    assert page.links.next_

    revision = {"data": {"type": "person", "id": "1", "attributes": {"last_name": "Murray"}}}
    updated = call("person.update_person", 1, body=model("PersonUpdate", revision))
    assert updated.data.attributes.full_name == "Grace Murray"

    operations = [
        {
            "op": "add",
            "data": {"type": "person", "lid": "ada", "attributes": NAMES},
        },
        {
            "op": "update",
            "ref": {"type": "computer", "id": "3", "relationship": "owner"},
            "data": {"type": "person", "lid": "ada"},
        },
        {"op": "remove", "href": "/computers/2"},
    ]
    body = model("Operations", {"atomic:operations": operations})
    assert len(call("operations.perform_operations", body=body).atomicresults) == 3
    assert call("computer.read_computer_owner", 3).data.attributes.full_name == "Ada Lovelace"

    call("person.delete_person", 1, status=204)
    missing = call("person.read_person", 1, status=404)
    assert missing.errors[0].code == "not_found"
    invalid = call("person.create_person", body=creation("person", **UNNAMED), status=422)
    assert "/data/attributes/first_name" in [one.source.pointer for one in invalid.errors]


NAMES = {"first_name": "Ada", "last_name": "Lovelace"}
UNNAMED = {**NAMES, "first_name": ""}
