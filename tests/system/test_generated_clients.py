"""Clients that are generated from the description of the running service, and then use it.

The commands that generate them, and a program for each, are those of docs/clients.md.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest

from tests.npm import NODE, installed
from tests.system.conftest import Start
from tests.system.service import ROOT, TIMEOUT, Service

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "clients.md").read_text()
ADDRESS = "http://127.0.0.1:8080"

GENERATION_TIMEOUT = 2 * TIMEOUT
"""Seconds for a generator or a compiler, which compete for the cores with other tests."""

PYTHON = Path(sys.executable)

PYTHON_CLIENT, FLEET_CLIENT = "registry_client", "fleet"
"""The packages that the page has openapi-python-client and OpenAPI Generator generate."""

TYPESCRIPT = Path(__file__).parent / "typescript"

NAMES = {"first_name": "Ada", "last_name": "Lovelace"}
GRACE = {"first_name": "Grace", "last_name": "Hopper", "email": "grace@example.com"}
OPERATIONS = [
    {"op": "add", "data": {"type": "person", "lid": "ada", "attributes": NAMES}},
    {
        "op": "update",
        "ref": {"type": "computer", "id": "3", "relationship": "owner"},
        "data": {"type": "person", "lid": "ada"},
    },
    {"op": "remove", "href": "/computers/2"},
]

MEMBERS = [{"type": "computer", "id": "1"}]
KINDS: dict[str, Any] = {
    "RemovePersonComputersByRef": {
        "op": "remove",
        "ref": {"type": "person", "id": "1", "relationship": "computers"},
        "data": MEMBERS,
    },
    "RemovePersonComputersByHref": {
        "op": "remove",
        "href": "/persons/1/relationships/computers",
        "data": MEMBERS,
    },
    "RemovePersonByRef": {"op": "remove", "ref": {"type": "person", "id": "1"}},
    "UpdateComputerOwnerByRef": OPERATIONS[1],
    "UpdateComputerOwnerByHref": {
        "op": "update",
        "href": "/computers/3/relationships/owner",
        "data": None,
    },
    "UpdateComputer": {
        "op": "update",
        "data": {"type": "computer", "id": "1", "attributes": {"serial": "0"}},
    },
}
"""Operations of several kinds, by the names of their schemas."""

Call = Callable[..., Any]


@pytest.fixture
def service(start: Start, mongodb_uri: str) -> Service:
    """A service with unique attributes, whose description differs only in texts and examples."""
    variables = {"MONGODB_URI": mongodb_uri, "REGISTRY_DATABASE": f"test_{uuid4().hex}"}
    return start("--unique", "computer.serial", "--unique", "person.email", **variables)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for a generated package, which can be imported during the test."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    packages = {PYTHON_CLIENT, FLEET_CLIENT}
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def command_of(page_command: str, service: Service) -> list[str]:
    """Return the arguments of the command that the page shows, for this service."""
    (shown,) = re.findall(rf"^{page_command} (.*)$", PAGE, re.MULTILINE)
    return shlex.split(shown.replace(ADDRESS, service.url))


def run(command: Sequence[str | Path], directory: Path, **variables: str) -> str:
    """Run a command, which must succeed; return its standard output."""
    done = subprocess.run(  # noqa: S603 - the generators and programs of this test
        command,
        cwd=directory,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=GENERATION_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_program(language: str, marker: str, program: Path, place: Path, service: Service) -> None:
    """Run the source with the marker that the page shows, and compare its output.

    program: the interpreter. place: where to write the source.
    """
    sources = re.findall(rf"```{language}\n(.*?)```.*?```\n(.*?)```", PAGE, re.DOTALL)
    ((source, shown),) = (one for one in sources if marker in one[0])
    place.write_text(source.replace(ADDRESS, service.url))
    assert run([program, place], place.parent) == shown


def described_operations(service: Service) -> set[str]:
    paths = service.request("/api/swagger/openapi.json")["paths"]
    return {operation["operationId"] for item in paths.values() for operation in item.values()}


@pytest.fixture
def call(service: Service, client: Path) -> Iterator[Call]:
    """A function that calls an operation of the client of openapi-python-client, which has all.

    It takes the module of the operation, its arguments, and the expected status.
    """
    (client / "config.json").write_text('{"post_hooks": []}')
    run(
        [
            PYTHON.with_name("openapi-python-client"),
            *command_of("openapi-python-client", service),
            *("--fail-on-warning", "--config", "config.json"),
        ],
        client,
    )
    modules = {path.stem for path in (client / PYTHON_CLIENT / "api").glob("*/*.py")}
    assert modules - {"__init__"} == described_operations(service)
    with import_module(PYTHON_CLIENT).Client(base_url=service.url) as connected:

        def call_operation(module: str, *path: Any, status: int = 200, **more: Any) -> Any:
            operation = import_module(f"{PYTHON_CLIENT}.api.{module}")
            response = operation.sync_detailed(*path, client=connected, **more)
            assert response.status_code == status, response.content
            return response.parsed

        yield call_operation


def model(name: str, document: Any) -> Any:
    """Return an instance of a class of the client from a document."""
    module = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]
    return getattr(import_module(f"{PYTHON_CLIENT}.models.{module}"), name).from_dict(document)


def creation(type_name: str, **attributes: str) -> Any:
    document = {"data": {"type": type_name, "attributes": attributes}}
    return model(f"{type_name.title()}Create", document)


def test_openapi_python_client_generates_a_working_client(
    call: Call, service: Service, client: Path
) -> None:
    created = call("person.create_person", body=creation("person", **GRACE), status=201)
    assert (created.data.id, created.data.attributes.email) == ("1", "grace@example.com")
    for number in range(3):
        call("computer.create_computer", body=creation("computer", serial=f"{number}"), status=201)

    again = call("computer.create_computer", body=creation("computer", serial="0"), status=409)
    assert (again.errors[0].code, again.errors[0].links.about) == ("value_taken", "/computers/1")

    to_computers = {"data": [{"type": "computer", "id": "1"}, {"type": "computer", "id": 2}]}
    linkage = model("ComputerToManyChange", to_computers)
    call("person.replace_person_computers", 1, body=linkage, status=204)
    removal = model("ComputerToManyRemoval", {"data": [{"type": "computer", "id": "2"}]})
    call("person.remove_person_computers", 1, body=removal, status=204)
    (member,) = call("person.read_person_computers_linkage", 1).data
    assert member.id == "1"

    included = import_module(f"{PYTHON_CLIENT}.models").ListPersonsIncludeItem.COMPUTERS
    listed = call("person.list_persons", include=[included], filterfirst_name=["Grace"])
    assert listed.data[0].attributes.full_name == "Grace Hopper"
    assert [one.attributes.serial for one in listed.included] == ["0"]
    page = call("computer.list_computers", pagenumber=1, pagesize=2, sort="-serial,id")
    assert ([one.id for one in page.data], page.meta.total) == (["3", "2"], 3)
    assert page.links.next_

    revision = {"data": {"type": "person", "id": "1", "attributes": {"last_name": "Murray"}}}
    updated = call("person.update_person", 1, body=model("PersonUpdate", revision))
    assert updated.data.attributes.full_name == "Grace Murray"

    body = model("Operations", {"atomic:operations": OPERATIONS})
    assert len(call("operations.perform_operations", body=body).atomicresults) == 3
    assert call("computer.read_computer_owner", 3).data.attributes.full_name == "Ada Lovelace"

    call("person.delete_person", 1, status=204)
    missing = call("person.read_person", 1, status=404)
    assert missing.errors[0].code == "not_found"
    invalid = creation("person", **{**NAMES, "first_name": ""})
    failed = call("person.create_person", body=invalid, status=422)
    assert "/data/attributes/first_name" in [one.source.pointer for one in failed.errors]

    check_program("python", PYTHON_CLIENT, PYTHON, client / "program.py", service)
    run([PYTHON.with_name("mypy"), *command_of("mypy", service)], client)


def test_openapi_generator_generates_a_working_client(service: Service, client: Path) -> None:
    fleet = generated_by_openapi_generator(service, client)
    with fleet.ApiClient(fleet.Configuration(host=service.url)) as connected:
        apis = [getattr(fleet, name) for name in dir(fleet) if name.endswith("Api")]
        for name in described_operations(service):
            assert any(hasattr(api, name) for api in apis), name
        used = (fleet.PersonApi, fleet.ComputerApi, fleet.OperationsApi)
        persons, computers, operations = (api(connected) for api in used)
        document = {"data": {"type": "person", "attributes": GRACE}}
        created = persons.create_person(fleet.PersonCreate.from_dict(document))
        assert (created.data.id, created.data.attributes.email) == ("1", "grace@example.com")
        for number in range(3):
            document = {"data": {"type": "computer", "attributes": {"serial": f"{number}"}}}
            computers.create_computer(fleet.ComputerCreate.from_dict(document))
        with pytest.raises(fleet.ApiException) as raised:
            computers.create_computer(fleet.ComputerCreate.from_dict(document))
        assert raised.value.data.errors[0].links.about == "/computers/3"

        to_computers = {"data": [{"type": "computer", "id": "1"}]}
        persons.replace_person_computers(1, fleet.ComputerToManyChange.from_dict(to_computers))
        listed = persons.list_persons(include=["computers"], filter_first_name=["Grace"])
        assert [one.actual_instance.attributes.serial for one in listed.included] == ["0"]
        page = computers.list_computers(page_number=1, page_size=2, sort="-serial,id")
        assert ([one.id for one in page.data], page.meta.total) == (["3", "2"], 3)

        attributes = fleet.PersonUpdateDataAttributes(last_name="Murray")
        revision = fleet.PersonUpdateData(type="person", attributes=attributes)
        updated = persons.update_person(1, fleet.PersonUpdate(data=revision)).data
        assert updated.attributes.email == "grace@example.com"

        check_kinds_of_operations(fleet)
        performed = fleet.Operations.from_dict({"atomic:operations": OPERATIONS})
        assert len(operations.perform_operations(performed).atomic_results) == 3
        persons.delete_person(1)
    alan = {"first_name": "Alan", "last_name": "Turing"}
    service.request("/persons", {"data": {"type": "person", "attributes": alan}})
    check_program("python", FLEET_CLIENT, PYTHON, client / "program.py", service)


def generated_by_openapi_generator(service: Service, client: Path) -> ModuleType:
    command: list[str | Path] = [
        PYTHON.with_name("openapi-generator-cli"),
        *command_of("openapi-generator-cli", service),
        *("--global-property", "apis,models,supportingFiles,apiTests=false,modelTests=false"),
    ]
    # Without its optimizing compiler, Java takes half of the CPU time.
    run(command, client, JAVA_OPTS="-XX:TieredStopAtLevel=1")
    (client / "client" / FLEET_CLIENT).rename(client / FLEET_CLIENT)
    return import_module(FLEET_CLIENT)


def check_kinds_of_operations(fleet: ModuleType) -> None:
    """Each operation is read as what it is, though all of its members but one suit another."""
    for name, members in KINDS.items():
        document = {"atomic:operations": [members]}
        loaded = fleet.Operations.from_dict(document)
        (operation,) = loaded.atomic_operations
        assert type(operation.actual_instance).__name__ == name
        assert loaded.to_dict() == document, name


def test_openapi_typescript_generates_working_types(service: Service, tmp_path: Path) -> None:
    packages = installed(TYPESCRIPT) / "node_modules"
    (tmp_path / "node_modules").symlink_to(packages)
    for name in ("package.json", "tsconfig.json", "scenario.ts"):
        (tmp_path / name).write_text((TYPESCRIPT / name).read_text())
    generator = packages / "openapi-typescript" / "bin" / "cli.js"
    run([NODE, generator, *command_of("npx openapi-typescript", service)], tmp_path)
    types = (tmp_path / "schema.ts").read_text()
    assert described_operations(service) <= set(re.findall(r"^    (\w+): \{$", types, re.MULTILINE))
    run([NODE, "scenario.ts", service.url], tmp_path)
    check_program("typescript", "openapi-fetch", NODE, tmp_path / "client.ts", service)
    compiler = packages / "typescript" / "bin" / "tsc"
    run([NODE, compiler, *command_of("npx tsc", service)], tmp_path)
    run([NODE, compiler, "-p", "."], tmp_path)
